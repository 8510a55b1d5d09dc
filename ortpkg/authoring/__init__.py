"""What needs both a package's documents and its models: create, edit, convert, merge, compile,
validate.
"""
