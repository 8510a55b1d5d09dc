"""Text of protobuf messages, whose parser gives bytes where a text is no UTF-8."""

from __future__ import annotations

from collections.abc import Collection

import onnx

from ortpkg.errors import ModelFileError, quoted
from ortpkg.graph.load_control import ENTRY_NBYTES, polled_parts


def text_of(value: str | bytes, what: str) -> str:
    """``value``, which is text; ModelFileError where it is not.

    ``what`` says what it is the text of.
    """
    if isinstance(value, bytes):
        raise ModelFileError(f"the {what} {quoted(value)} is not UTF-8 text")
    return value


def entries_of(entries: Collection[onnx.StringStringEntryProto], what: str) -> dict[str, str]:
    """Key-value pairs as a dictionary; of a key that comes twice the last value holds."""
    return {
        text_of(entry.key, f"key of {what}"): text_of(entry.value, f"value of {what}")
        for entry in polled_parts(entries, ENTRY_NBYTES)
    }
