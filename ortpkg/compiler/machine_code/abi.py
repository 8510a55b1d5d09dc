"""Versions of compiled code, and which of them can run.

Imports nothing, since selection uses it.
"""

from __future__ import annotations

#: Version of the interface of kernels and executor; code of another version is refused.
ABI_VERSION = 1
#: Increase it when the same graph compiles to other code; cached contexts are then recompiled.
COMPILER_VERSION = 4
#: Code of earlier compilers is refused: up to version 2, a masked store of elements of one or two
#: bytes could write up to three bytes past its buffer.
LEAST_COMPILER_VERSION = 3
_MOST_DIGITS = 6


def reason_against_compiler(version: str) -> str | None:
    """Return why code of a compiler's version is refused; None if it is not.

    Args:
        version: version from a descriptor or compatibility string; "" if it has none.

    Returns:
        The end of a sentence, for code known to be wrong.
    """
    is_number = version.isascii() and version.isdecimal() and len(version) <= _MOST_DIGITS
    number = int(version) if is_number else 0
    if number >= LEAST_COMPILER_VERSION:
        return None
    made_by = f"version {number}" if number else "no known version"
    return (
        f"it was compiled by {made_by} of the compiler, and code from before version"
        f" {LEAST_COMPILER_VERSION} may write past the end of a buffer; compile the model anew"
    )
