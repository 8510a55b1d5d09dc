"""Decide which paths and references a package may name, and where they lead.

Every path that comes from a package goes through here.
"""
