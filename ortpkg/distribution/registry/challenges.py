"""Parser of the header WWW-Authenticate, which says how to authenticate (RFC 9110, 11.6.1)."""

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
    """One way to authenticate that a server offers.

    Attributes:
        scheme: Lower-case scheme, such as ``bearer`` or ``basic``.
        parameters: Parameters by lower-case name.
    """

    scheme: str
    parameters: Mapping[str, str]


def parse_challenges(headers: Iterable[str]) -> tuple[Challenge, ...]:
    """Return all challenges of an answer; unreadable ones are left out."""
    challenges: list[Challenge] = []
    for text in headers:
        if len(text) <= _MOST_CHARACTERS:
            challenges += _parse(text)
    return tuple(challenges)


def _parse(text: str) -> list[Challenge]:
    challenges: list[tuple[str, dict[str, str]]] = []
    offset = 0
    while offset < len(text):
        offset = _end(_SEPARATORS.match(text, offset), offset)
        parameter = _PARAMETER.match(text, offset)
        if parameter is not None and challenges:
            value = parameter[3] if parameter[2] is None else re.sub(r"\\(.)", r"\1", parameter[2])
            challenges[-1][1].setdefault(parameter[1].lower(), value)
            offset = parameter.end()
            continue
        word = _WORD.match(text, offset)
        if word is None:
            break
        challenges.append((word[0].lower(), {}))
        offset = word.end()
    return [Challenge(scheme=scheme, parameters=parameters) for scheme, parameters in challenges]


def _end(match: re.Match[str] | None, otherwise: int) -> int:
    return otherwise if match is None else match.end()
