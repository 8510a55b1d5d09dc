"""The store: packages installed on one machine, their content, each one's version in use.

It knows blobs, files and names, neither what a machine wants (``selection``) nor how packages
travel (``registry``). Its layout, and what other tools may read of it, is in docs/store.md; why it
needs no locks to be right, in docs/adr/0021-store.md.

``installed_packages`` is what running a package needs, ``package_store`` all that is done with a
store; ``generations`` and ``receipts`` have the values that say what is installed, ``collection``
those that say what was collected; ``leases`` is what an open session holds, ``package_trees`` what
a tree is made of.

Other folders may import: ``collection``, ``generations``, ``installed_packages``, ``leases``,
``package_store``, ``package_trees``, ``receipts``.
"""
