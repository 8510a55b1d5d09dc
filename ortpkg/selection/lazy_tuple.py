"""Tuples that are made when somebody looks: a choice among thousands of variants is used far more
often than read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, overload

ItemT_co = TypeVar("ItemT_co", covariant=True)


class LazyTuple(Sequence[ItemT_co], Generic[ItemT_co]):
    """A tuple that ``make`` makes at the first look. Compares, prints and pickles as that tuple."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], tuple[ItemT_co, ...]]) -> None:
        self._make: Callable[[], tuple[ItemT_co, ...]] | None = make
        self._made: tuple[ItemT_co, ...] = ()

    def as_tuple(self) -> tuple[ItemT_co, ...]:
        """All of them."""
        make = self._make
        if make is not None:
            self._made = make()
            self._make = None  # after the result is there: another thread may look at the same time
        return self._made

    @overload
    def __getitem__(self, place: int) -> ItemT_co: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[ItemT_co, ...]: ...

    def __getitem__(self, place: int | slice) -> ItemT_co | tuple[ItemT_co, ...]:
        return self.as_tuple()[place]

    def __len__(self) -> int:
        return len(self.as_tuple())

    def __eq__(self, other: object) -> bool:
        return self.as_tuple() == (other.as_tuple() if isinstance(other, LazyTuple) else other)

    def __hash__(self) -> int:
        return hash(self.as_tuple())

    def __repr__(self) -> str:
        return repr(self.as_tuple())

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self.as_tuple(),)
