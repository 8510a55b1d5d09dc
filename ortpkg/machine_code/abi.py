"""Versions of compiled code, and which of them run. Imports nothing: selections ask it."""

from __future__ import annotations

#: Of kernels and the executor; code of another version is not run.
ABI_VERSION = 1
#: Goes up when the same graph becomes other code: the cache of contexts then compiles anew.
COMPILER_VERSION = 4
#: Code of compilers before it is not run: up to 2 a masked store of elements of one or two bytes
#: could write up to three bytes past its buffer.
LEAST_COMPILER_VERSION = 3
_MOST_DIGITS = 6


def reason_against_compiler(version: str) -> str | None:
    """Why code of a compiler's version is not run, None where it is.

    Args:
        version: as descriptors and compatibility strings say it; "" where they say none.

    Returns:
        A sentence's end, for code that is known to be wrong.
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
