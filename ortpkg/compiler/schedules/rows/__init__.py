"""Schedules of maps, reductions and normalizations, along rows of numbers."""
