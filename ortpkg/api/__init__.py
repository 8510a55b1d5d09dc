"""Façades for users: ``ModelPackage``, ``ModelVariant`` and their functions.

``ortpkg`` exports most of them; ``devices`` and ``release_comparison`` serve commands.
``execution_providers`` and ``transformers`` are for authors of extensions, whose imports they keep
stable.

Rooms: ``bench``, ``doctor``, ``samples``, which use packages as users do.

Only this folder may import: ``chosen_variants``; other folders may import the rest.
"""
