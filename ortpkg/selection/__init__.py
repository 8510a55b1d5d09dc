"""Which variant runs on which EP device, and why."""
