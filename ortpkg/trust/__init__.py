"""What of a stranger's package may take effect: its options, and its native compiled contexts."""
