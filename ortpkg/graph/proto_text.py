"""Text of protobuf messages, whose parser returns bytes if a text is no UTF-8."""

from __future__ import annotations

from collections.abc import Collection

import onnx

from ortpkg.foundations.errors import ModelFileError, quoted
from ortpkg.graph.load_control import ENTRY_NBYTES, polled_parts


def text_of(value: str | bytes, what: str) -> str:
    """Return ``value`` if it is text; else raise ModelFileError.

    ``what`` describes the text in the message.
    """
    if isinstance(value, bytes):
        raise ModelFileError(f"the {what} {quoted(value)} is not UTF-8 text")
    return value


def entries_of(entries: Collection[onnx.StringStringEntryProto], what: str) -> dict[str, str]:
    """Return key-value pairs as a dictionary; the last value of a repeated key counts."""
    return {
        text_of(entry.key, f"key of {what}"): text_of(entry.value, f"value of {what}")
        for entry in polled_parts(entries, ENTRY_NBYTES)
    }
