"""Texts that name a package: in a folder, the store, a registry, or at an address.

Other folders may import: everything here.
"""
