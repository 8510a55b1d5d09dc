"""Fusion: merges operations, so that values stay in registers."""
