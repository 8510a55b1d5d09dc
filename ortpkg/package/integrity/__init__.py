"""Digests of a package's files and shared assets: recorded, read, compared with the disk."""
