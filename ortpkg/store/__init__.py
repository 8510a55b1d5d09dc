"""The store: packages installed on one machine, their content, each one's version in use.

It knows blobs, files and names, neither what a machine wants (``selection``) nor how packages
travel (``registry``). Its layout, and what other tools may read of it, is in docs/store.md; why it
needs no locks to be right, in docs/adr/0021-store.md.

For others: ``installed_packages`` (what running a package needs), ``package_store`` (all that is
done with a store), ``blob_store`` (content by digest), ``package_trees`` (what a tree is made of),
``generations`` and ``receipts`` (the values that say what is installed), ``usage_log`` and
``collection`` (those that say what ran and what was collected), ``leases`` (what an open session
holds). The rest serves these.
"""
