"""Measuring variants in child processes, and keeping what was measured on this machine."""
