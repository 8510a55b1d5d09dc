"""Drop too deeply nested parts of JSON text, as a reader of packages does."""

from __future__ import annotations

import re

_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)


def without_depth(text: str, depth: int) -> tuple[str, list[str]]:
    """Return ``text`` with 0 for each object and array nested deeper than ``depth``.

    Also return the dropped objects and arrays, the inner ones first and already without their own
    inner ones.
    """
    pieces: list[str] = []
    dropped: list[str] = []
    openings: list[int] = []
    end = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        bracket = match.group()
        if bracket[0] == '"':
            continue
        pieces += (text[end : match.start()], bracket)
        end = match.end()
        if bracket in "[{":
            openings.append(len(pieces) - 1)
        elif openings:
            start = openings.pop()
            if len(openings) >= depth:
                dropped.append("".join(pieces[start:]))
                pieces[start:] = ["0"]
    return "".join(pieces) + text[end:], dropped
