"""Upper limits for a document of unknown origin."""

from __future__ import annotations

from typing import NamedTuple


class DocumentLimits(NamedTuple):
    """Upper limits for a document, and which of its faults are tolerated.

    Attributes:
        nbytes: size of the file.
        depth: objects and arrays inside each other.
        values: values in the whole document, counted as commas and opening brackets.
        string_length: characters of one string.
        number_length: characters of one number, as written.
        repeated_keys: an object may have a key twice; the last one counts, at the position of the
            first.
        text_after_nul: a NUL byte ends the document, whatever follows.
        drops_what_is_deeper: values nested deeper than ``depth`` are checked and replaced by the
            number 0.
    """

    nbytes: int = 32 * 1024 * 1024
    depth: int = 64
    values: int = 1_000_000
    string_length: int = 1024 * 1024
    number_length: int = 128
    repeated_keys: bool = False
    text_after_nul: bool = False
    drops_what_is_deeper: bool = False


DEFAULT_LIMITS = DocumentLimits()
