"""Mutants that stand in the project by name, each with the narrow tests that have to notice it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

NAMED = Path(__file__).parent / "named.toml"

_KEYS = {"name", "file", "old", "new", "tests"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedMutant:
    """``old``, which stands once in ``file``, becomes ``new``.

    One of ``tests``, names as pytest takes them, fails.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """The file's text with the change. ValueError where ``old`` does not stand there once."""
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.name}: {self.file} has {text.count(self.old)} of the text, not one:"
                f" {self.old}"
            )
        return text.replace(self.old, self.new)


def read_named(text: str) -> list[NamedMutant]:
    """``[[mutant]]`` tables with ``name``, ``file``, ``old``, ``new``, a list of ``tests``.

    ValueError for others.
    """
    named = []
    for number, table in enumerate(tomllib.loads(text).get("mutant", ())):
        if table.keys() != _KEYS or not table["tests"]:
            raise ValueError(f"mutant {number}: {', '.join(sorted(_KEYS))} are needed")
        named.append(NamedMutant(**{**table, "tests": tuple(table["tests"])}))
    return named
