"""Publishing and installing of packages: which files a machine needs, and how they get there.

It connects ``registry``, which moves bytes, ``store``, which keeps them, and selection, which
decides what a machine runs. A package that is fetched, installed or published here is the same
package, byte for byte.

Rooms: ``project``, ``registry``, ``store``.

Other folders may import: ``better_variants``, ``installation``, ``locking``,
``opening_references``, ``package_signing``, ``publishing``, ``pulling``, ``repairing``,
``upgrading``, ``used_packages``, ``variant_choice``.
"""
