"""What a registry asks for who wants in: the header WWW-Authenticate (RFC 9110, 11.6.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_MOST_CHARACTERS = 16 * 1024
_SEPARATORS = re.compile(r"[\s,]*")
_WORD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z/-]+=*")
_PARAMETER = re.compile(
    r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s,\"=][^\s,\"]*))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """One way in.

    Attributes:
        scheme: ``bearer``, ``basic``, ...: lower case.
        parameters: by their names in lower case.
    """

    scheme: str
    parameters: Mapping[str, str]


def parse_challenges(headers: Iterable[str]) -> tuple[Challenge, ...]:
    """All challenges of an answer; what cannot be read is left out."""
    found: list[Challenge] = []
    for text in headers:
        if len(text) <= _MOST_CHARACTERS:
            found += _parse(text)
    return tuple(found)


def _parse(text: str) -> list[Challenge]:
    found: list[tuple[str, dict[str, str]]] = []
    place = 0
    while place < len(text):
        place = _end(_SEPARATORS.match(text, place), place)
        parameter = _PARAMETER.match(text, place)
        if parameter is not None and found:
            value = parameter[3] if parameter[2] is None else re.sub(r"\\(.)", r"\1", parameter[2])
            found[-1][1].setdefault(parameter[1].lower(), value)
            place = parameter.end()
            continue
        word = _WORD.match(text, place)
        if word is None:
            break
        found.append((word[0].lower(), {}))
        place = word.end()
    return [Challenge(scheme=scheme, parameters=parameters) for scheme, parameters in found]


def _end(match: re.Match[str] | None, otherwise: int) -> int:
    return otherwise if match is None else match.end()
