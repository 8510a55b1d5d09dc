"""Pack a package into one file (a restricted ZIP), unpack it, and check it without unpacking.

Only this folder may import: ``archive_writer``, ``zip_format``; other folders may import the rest.
"""
