"""Files that change: replace them in one step, lock them, recognize them by stamps and digests.

Facts about files and backends are cached here, and a dry run rehearses changes.

Only this folder may import: ``file_clone``, ``write_behind``; other folders may import the rest.
"""
