"""Arguments and options that take one of a few words."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import typer

from ortpkg.errors import quoted
from ortpkg.names import did_you_mean


def one_of(words: type[StrEnum]) -> dict[str, Any]:
    """Keywords of a typer argument or option that takes one of ``words``."""
    return {
        "metavar": "|".join(words),
        "parser": _parser(words),
        "autocompletion": _completion(words),
    }


def _parser(words: type[StrEnum]) -> Callable[[str], StrEnum]:
    def word(text: str) -> StrEnum:
        if text not in list(words):
            listed = " or ".join(filter(None, [", ".join(list(words)[:-1]), list(words)[-1]]))
            raise typer.BadParameter(f"{quoted(text)} is not {listed}{did_you_mean(text, words)}")
        return words(text)

    return word


def _completion(words: type[StrEnum]) -> Callable[[str], list[str]]:
    def offered(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return offered
