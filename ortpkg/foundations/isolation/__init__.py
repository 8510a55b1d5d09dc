"""Foreign code in child processes: start, messages, limits and end.

Only this folder may import: ``child_main``, ``orphan``; other folders may import the rest.
"""
