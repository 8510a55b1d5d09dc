"""Text of protobuf messages, whose parser gives bytes where a text is no UTF-8."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from ortpkg.errors import ModelFileError, quoted


def text_of(value: str | bytes, what: str) -> str:
    """``value``, which is text; ModelFileError where it is not.

    ``what`` says what it is the text of.
    """
    if isinstance(value, bytes):
        raise ModelFileError(f"the {what} {quoted(value)} is not UTF-8 text")
    return value


def entries_of(entries: Iterable[onnx.StringStringEntryProto], what: str) -> dict[str, str]:
    """Key-value pairs as a dictionary; of a key that comes twice the last value holds."""
    return {
        text_of(entry.key, f"key of {what}"): text_of(entry.value, f"value of {what}")
        for entry in entries
    }
