"""Shape and type inference with symbols: what operators make of what is known of their inputs.

Other folders may import: ``expression_bounds``, ``expression_text``, ``expressions``,
``inference``, ``knowledge``, ``size_operations``.
"""
