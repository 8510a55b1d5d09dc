"""Operator kernels over numpy, by operator family, and the registry in which sessions find them."""
