"""Schedules: turn operations of the tensor IR into kernels, by a cost model of the target."""
