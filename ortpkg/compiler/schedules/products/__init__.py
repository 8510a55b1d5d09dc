"""Schedules of matrix products: packed operands, tiles, and steps of each kind of number."""
