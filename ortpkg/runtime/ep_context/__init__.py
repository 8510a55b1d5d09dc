"""EPContext: the node, the file of compiled contexts, and their cache.

Only this folder may import: ``cache_owner``, ``context_file_writing``; other folders may import the
rest.
"""
