"""Shape and type inference with symbols: what each operator makes, from what is known of what it
takes.
"""
