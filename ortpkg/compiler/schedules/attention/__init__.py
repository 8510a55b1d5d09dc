"""Schedules of attention: softmax over products of queries and keys, tile by tile."""
