"""``ortpkg bench``: measures the variants of a package that can run here, and draws the result."""
