"""Store weights that several variants have in common once (``dedup``, ADR 7)."""
