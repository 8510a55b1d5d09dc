"""Fusion: fewer operations over the same elements, so that values stay in registers."""
