"""Holds that a command says nothing in the words of a library that reads values."""

from __future__ import annotations

from ortpkg.cli.app import INTERNAL_ERROR
from tests.done import Done

FOREIGN_WORDS = (
    "Input should be",
    "Extra inputs are not permitted",
    "validation error",
    "Value error",
    "Field required",
    "pydantic",
    "not a valid int",
    "not a valid float",
    "is not in the range",
)


def in_own_words(done: Done) -> str:
    """What a command printed; no words of a library's, no fault of ours."""
    text = done.out + done.err
    assert done.code != INTERNAL_ERROR
    assert [words for words in FOREIGN_WORDS if words in text] == []
    return text
