"""The loop IR: kernels as loops over buffers, with vectors of the target's width.

It is structured and in static single assignment form: each value is made once, before its uses, and
a loop passes values from one iteration to the next. :mod:`.kernel_builder` makes kernels,
:mod:`.kernel_text` prints them, :mod:`.kernel_verifier` checks them.
"""
