"""The tensor IR: a partition's computation as operations over whole tensors.

Most operations define one element of their output by an expression over their axes
(:mod:`.elements`); products, convolutions, attention and the like have schedules of their own
(:mod:`.operations`). Fusion and layouts work on a program of operations (:mod:`.tensor_program`).
"""
