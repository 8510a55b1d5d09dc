"""``ortpkg doctor``: what this machine has, what is wrong with it, and the remedy; ``cache why``.

Within alone: ``native_libraries``, ``situation``; what else is here is for all.
"""
