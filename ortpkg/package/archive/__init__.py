"""A package as one file (a restricted ZIP) and back, and checking a packed one without unpacking
it.

Within alone: ``archive_writer``, ``zip_format``; what else is here is for all.
"""
