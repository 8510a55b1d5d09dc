"""A package as one file (a restricted ZIP) and back; checking one without unpacking it.

Within alone: ``archive_writer``, ``zip_format``; what else is here is for all.
"""
