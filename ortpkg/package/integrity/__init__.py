"""Digests of a package's files and shared assets: record, read and compare them with the disk."""
