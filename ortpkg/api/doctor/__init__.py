"""``ortpkg doctor``: facts on this machine, problems, and their remedies; ``cache why``.

Only this folder may import: ``native_libraries``, ``situation``; other folders may import the rest.
"""
