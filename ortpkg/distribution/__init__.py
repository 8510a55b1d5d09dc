"""Packages published and installed: which files a machine needs, which move, what users are told.

It stands between ``registry``, which moves bytes, the store, which keeps them, and selection, which
says what a machine runs.

Other folders may import: ``better_variants``, ``installation``, ``locking``,
``opening_references``, ``package_signing``, ``publishing``, ``pulling``, ``repairing``,
``upgrading``, ``used_packages``, ``variant_choice``.
"""
