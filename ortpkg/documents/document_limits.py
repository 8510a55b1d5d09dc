"""How much a document of a stranger may hold."""

from __future__ import annotations

from typing import NamedTuple


class DocumentLimits(NamedTuple):
    """How much a document may hold, and which faults of it are passed over.

    Attributes:
        nbytes: of the file.
        depth: objects and arrays inside each other.
        values: values in the whole document, counted as commas and opening brackets.
        string_length: characters of one string.
        number_length: characters of one number, as written.
        repeated_keys: an object may have a key twice; the last one counts, in the place of the
            first.
        text_after_nul: a NUL byte ends the document, whatever follows.
        drops_what_is_deeper: what is nested deeper than ``depth`` is checked, and the number 0
            stands in its place.
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
