"""Files that change: replaced in one step, locked, and known again by their stamps and digests.

Facts about files and backends are remembered here, and changes that a dry run only rehearses.

Only this folder may import: ``file_clone``, ``write_behind``; other folders may import the rest.
"""
