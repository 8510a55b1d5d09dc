"""A package as one file (a restricted ZIP) and back; checking one without unpacking it.

Only this folder may import: ``archive_writer``, ``zip_format``; other folders may import the rest.
"""
