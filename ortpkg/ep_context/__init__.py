"""EPContext: the node, the file of compiled contexts, and the cache of them.

Within alone: ``cache_owner``; what else is here is for all.
"""
