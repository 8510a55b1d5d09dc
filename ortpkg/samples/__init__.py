"""Samples of a package: recorded by a publisher, run and compared on a user's machine.

All modules are for all.
"""
