"""Decoders of JSON text that refuse what means different things to different readers.

Each is made once.

They know neither files nor findings: what they refuse they raise, and
    :mod:`ortpkg.package.documents.json_documents` says where.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

from ortpkg.errors import quoted
from ortpkg.package.rules import DOCUMENT_SYNTAX, DOCUMENT_TOO_LARGE, Rule

_MOST_DIGITS_OF_A_DOUBLE = 308
MakeObject = Callable[[list[tuple[str, Any]]], dict[str, Any]]


class NumberError(Exception):
    """A number that JSON or the limits do not allow."""

    def __init__(self, rule: Rule, message: str, remedy: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.remedy = remedy


class _Numbers:
    """Makes numbers from their text, where JSON and the limits allow it.

    Raises NumberError elsewhere.
    """

    def __init__(self, most_characters: int) -> None:
        self._most_characters = most_characters

    def make_int(self, written: str) -> int:
        self._check_length(written)
        if len(written) > _MOST_DIGITS_OF_A_DOUBLE:
            self.make_float(written)
        return int(written)

    def make_float(self, written: str) -> float:
        self._check_length(written)
        made = float(written)
        if math.isinf(made):
            self.refuse(written, "is too large for a double")
        return made

    def refuse_constant(self, written: str) -> NoReturn:
        self.refuse(written, "is not JSON")

    def refuse(self, written: str, why: str) -> NoReturn:
        raise NumberError(DOCUMENT_SYNTAX, f"number {quoted(written)} {why}", "use a finite number")

    def _check_length(self, written: str) -> None:
        if len(written) > self._most_characters:
            message = f"number {quoted(written)} has more than {self._most_characters} characters"
            raise NumberError(DOCUMENT_TOO_LARGE, message, "use fewer digits")


class RepeatedKeyError(Exception):
    """An object has a key twice."""


def new_decoder(number_length: int, make_object: MakeObject | None = None) -> json.JSONDecoder:
    """A decoder that raises NumberError for numbers of more characters, and makes objects by
    ``make_object``.
    """
    numbers = _Numbers(number_length)
    return json.JSONDecoder(
        object_pairs_hook=make_object,
        parse_int=numbers.make_int,
        parse_float=numbers.make_float,
        parse_constant=numbers.refuse_constant,
    )


@cache
def plain_decoder(number_length: int) -> json.JSONDecoder:
    """Lets the last of several equal keys win, as :mod:`json` does."""
    return new_decoder(number_length)


@cache
def decoder_of_unique_keys(number_length: int) -> json.JSONDecoder:
    """Raises RepeatedKeyError for an object with a key twice."""
    return new_decoder(number_length, _object_of_unique_keys)


def _object_of_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise RepeatedKeyError
    return made
