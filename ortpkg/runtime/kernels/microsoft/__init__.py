"""Kernels of operators of the domain com.microsoft."""
