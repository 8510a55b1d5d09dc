"""The loop IR: kernels as loops over buffers, with vectors of the size that the target has.

It is structured and in static single assignment: a value is made once, before its uses; a loop
hands values from one pass to the next. :mod:`.kernel_builder` makes it, :mod:`.kernel_text` prints
it, :mod:`.kernel_verifier` checks it.
"""
