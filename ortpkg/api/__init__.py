"""The façades that users hold: ``ModelPackage``, ``ModelVariant`` and their functions.

``ortpkg`` gives most of them by name; ``devices``, ``context_cache`` and ``release_comparison``
answer for commands. Within: how a selection comes about (``policy_pipeline``, ``model_operators``),
what was measured for a session (``partition_records``), and keyword arguments (``wishes``).
"""
