"""Schedules of recurrent layers: LSTM, GRU and RNN, step by step."""
