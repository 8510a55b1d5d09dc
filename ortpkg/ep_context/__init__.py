"""EPContext: the node, the file format, reading, writing and matching compiled contexts, and the
cache of them.
"""
