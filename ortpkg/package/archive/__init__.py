"""A package as one file (a restricted ZIP) and back, and checking a packed one without unpacking
it.
"""
