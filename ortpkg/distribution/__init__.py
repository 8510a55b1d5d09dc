"""Packages published and installed: which files of a package a machine needs, what of them moves,
and what the user is told.

It stands between ``registry``, which moves bytes, the store, which keeps them, and selection, which
says what a machine runs.
"""
