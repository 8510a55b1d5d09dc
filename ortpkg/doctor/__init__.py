"""``ortpkg doctor``: what this machine has, what is wrong with it, and the remedy; ``cache why``.

Only this folder may import: ``native_libraries``, ``situation``; other folders may import the rest.
"""
