"""``ortpkg doctor``: what this machine has, what is wrong with it, and the remedy."""
