"""Read-only values that can be compared and pickled: JSON, and tuples made on first access."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, overload

ValueT_co = TypeVar("ValueT_co", covariant=True)


class FrozenMapping(Mapping[str, ValueT_co]):
    """Read-only mapping in fixed order that can be pickled (MappingProxyType cannot)."""

    __slots__ = ("_items",)
    _items: dict[str, ValueT_co]

    def __init__(self, items: Mapping[str, ValueT_co] | None = None) -> None:
        object.__setattr__(self, "_items", dict(items or {}))

    def __getitem__(self, key: str) -> ValueT_co:
        return self._items[key]

    def get(self, key: str, default: Any = None) -> Any:
        """Return an item, without an exception inside: selection mostly asks for missing keys."""
        return self._items.get(key, default)

    def __contains__(self, key: object) -> bool:
        """Return True if the key exists, without an exception inside."""
        return key in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is read-only")

    def __reduce__(self) -> tuple[type[FrozenMapping[Any]], tuple[dict[str, Any]]]:
        return type(self), (dict(self._items),)

    def __repr__(self) -> str:
        return f"FrozenMapping({self._items!r})"

    def __hash__(self) -> int:
        return hash(tuple(self._items))


class TupleLike(Sequence[ValueT_co]):
    """Sequence that compares, prints and pickles as the tuple of its items."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, TupleLike) else other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)


class LazyTuple(TupleLike[ValueT_co]):
    """Tuple that ``make`` creates on first access.

    A choice among thousands of variants is used far more often than read.
    """

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], tuple[ValueT_co, ...]]) -> None:
        self._make: Callable[[], tuple[ValueT_co, ...]] | None = make
        self._made: tuple[ValueT_co, ...] = ()

    def _as_tuple(self) -> tuple[ValueT_co, ...]:
        make = self._make
        if make is not None:
            self._made = make()
            self._make = (
                None  # after the result is stored: another thread may read at the same time
            )
        return self._made

    @overload
    def __getitem__(self, index: int) -> ValueT_co: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[ValueT_co, ...]: ...

    def __getitem__(self, index: int | slice) -> ValueT_co | tuple[ValueT_co, ...]:
        return self._as_tuple()[index]

    def __iter__(self) -> Iterator[ValueT_co]:
        return iter(self._as_tuple())

    def __len__(self) -> int:
        return len(self._as_tuple())


EMPTY: FrozenMapping[Any] = FrozenMapping()


def freeze(value: Any) -> Any:
    """Return a read-only copy of a JSON value: FrozenMapping for objects, a tuple for arrays."""
    if value is None or isinstance(value, str | int | float):  # first: nearly all values are
        return value
    if isinstance(value, FrozenMapping) and not value:
        return EMPTY
    if isinstance(
        value, dict | Mapping
    ):  # dict first: the check for Mapping takes ten times as long
        return FrozenMapping({key: freeze(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    return value


def thaw(value: Any) -> Any:
    """Return the inverse of :func:`freeze`: plain dictionaries and lists, ready for :mod:`json`."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [thaw(item) for item in value]
    return value
