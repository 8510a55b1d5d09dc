"""Checks whether the compiler of machine code is installed; it is not imported."""

from __future__ import annotations

from importlib.util import find_spec

#: The distribution that compiles.
COMPILER = "llvmlite"


def has_compiler() -> bool:
    """Return True if llvmlite is installed."""
    return find_spec(COMPILER) is not None
