"""EPContext: the node, the file of compiled contexts, and the cache of them.

Within alone: ``cache_owner``, ``context_file_writing``; what else is here is for all.
"""
