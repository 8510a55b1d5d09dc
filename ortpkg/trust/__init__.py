"""What of a stranger's package may take effect: its options, and its native compiled contexts.

``option_policy`` and ``context_trust`` decide for a package, ``package_verification`` compares its
files with their digests; ``safe_options``, ``session_option_values`` and ``load_config`` are the
lists that they go by, ``judged_contexts`` the files that were judged. All of them are for all.
"""
