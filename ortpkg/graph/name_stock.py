"""The value names in all graphs of one model, so that new names are new in all of them."""

from __future__ import annotations

from collections.abc import Iterable


class NameStock:
    """Every name that a graph of one model ever had; its main graph and all sub-graphs share it."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        #: Stem → the number of the next name that is made of it.
        self._next_numbers: dict[str, int] = {}

    def take(self, names: Iterable[str]) -> None:
        """Keep :meth:`make` from making these names up."""
        self._taken.update(names)

    def make(self, stem: str) -> str:
        """Return an unused name with that stem, and mark it as used."""
        number = self._next_numbers.get(stem, 0)
        while (name := f"{stem}__{number}") in self._taken:
            number += 1
        self._next_numbers[stem] = number + 1
        self._taken.add(name)
        return name
