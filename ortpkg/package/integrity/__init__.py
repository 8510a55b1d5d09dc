"""SHA-256 digests of a package's files and shared assets: recorded, read, compared with what lies
on disk.
"""
