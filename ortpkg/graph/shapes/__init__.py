"""Inference of shapes and types with symbols, from the inputs of operators to their outputs.

Other folders may import: ``expression_bounds``, ``expression_text``, ``expressions``,
``inference``, ``knowledge``, ``resampling``, ``size_operations``.
"""
