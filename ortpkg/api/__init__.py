"""The façades that users hold: ``ModelPackage``, ``ModelVariant`` and their functions.

``ortpkg`` gives most of them by name; ``devices`` and ``release_comparison`` answer for commands.
How a selection comes about is below, in ``ortpkg.choosing``.

Only this folder may import: ``chosen_variants``; other folders may import the rest.
"""
