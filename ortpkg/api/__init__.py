"""Façades for users: ``ModelPackage``, ``ModelVariant`` and their functions.

``ortpkg`` exports most of them; ``devices`` and ``release_comparison`` serve commands. The steps of
a selection are in ``ortpkg.choosing``.

Only this folder may import: ``chosen_variants``; other folders may import the rest.
"""
