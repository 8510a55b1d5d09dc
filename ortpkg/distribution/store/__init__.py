"""Store of one machine: installed packages, their content, and the version of each that is in use.

The store knows blobs, files and names. It knows neither what a machine needs (``selection``) nor
how packages travel (``registry``). docs/store.md describes its layout and what other tools may
read; docs/adr/0021-store.md explains why it needs no locks to be correct.

``installed_packages`` is what running a package needs, ``package_store`` adds all changes of a
store. ``generations`` has the records of what is installed, ``collection`` those of what was
collected. ``leases`` protects what an open session uses, ``blob_trees`` makes trees.

Other folders may import: ``blob_trees``, ``collection``, ``generations``, ``installed_packages``,
``leases``, ``package_store``.
"""
