"""The tensor IR: what a partition computes, as operations over whole tensors.

Each operation says what one element of its output is, by an expression over its axes
(:mod:`.elements`), or is one of the operations whose loops are worth a schedule of their own:
products, convolutions, attention (:mod:`.operations`). A program of them (:mod:`.tensor_program`)
is what fusion and layouts work on.
"""
