"""The variants of a component, each made when somebody looks at it: of thousands, most are never looked at.

What a package says of them is checked when it is opened; making one checks nothing, reads nothing and cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from ortpkg.package.package_info import VariantInfo

CheckedT = TypeVar("CheckedT")


class LazyVariants(Sequence[VariantInfo], Generic[CheckedT]):
    """A tuple of variants that are made at the first look. Compares, prints and pickles as that tuple.

    Args:
        checked: what was read of each variant, with a key: variants with equal keys state the same constraints and the
            same provider options.
        make: the variant of what was read.
    """

    __slots__ = ("_checked", "_keys", "_made", "_make")

    def __init__(self, checked: Iterable[tuple[CheckedT, Hashable]], make: Callable[[CheckedT], VariantInfo]) -> None:
        pairs = list(checked)
        self._checked = [each for each, _ in pairs]
        self._keys = [key for _, key in pairs]
        self._make = make
        self._made: list[VariantInfo | None] = [None] * len(pairs)

    def alike(self) -> list[list[int]]:
        """Positions of the variants, in groups that state the same; first mention first."""
        groups: dict[Hashable, list[int]] = {}
        for place, key in enumerate(self._keys):
            group = groups.get(key)
            if group is None:
                groups[key] = [place]
            else:
                group.append(place)
        return list(groups.values())

    def _at(self, place: int) -> VariantInfo:
        made = self._made[place]
        if made is None:  # two threads may both make it: one of two equal values stays
            made = self._made[place] = self._make(self._checked[place])
        return made

    @overload
    def __getitem__(self, place: int) -> VariantInfo: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[VariantInfo, ...]: ...

    def __getitem__(self, place: int | slice) -> VariantInfo | tuple[VariantInfo, ...]:
        if isinstance(place, slice):
            return tuple(self._at(each) for each in range(*place.indices(len(self._made))))
        return self._at(place)

    def __iter__(self) -> Iterator[VariantInfo]:
        return map(self._at, range(len(self._made)))

    def __len__(self) -> int:
        return len(self._made)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, LazyVariants) else other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)


def alike(variants: Sequence[VariantInfo]) -> list[list[int]]:
    """Positions of ``variants``, in groups of which each surely states the same constraints and provider options.

    First mention first. Two groups may state the same too: it is a saving, not a comparison.
    """
    return variants.alike() if isinstance(variants, LazyVariants) else [[place] for place in range(len(variants))]


def one_of_each_kind(variants: Sequence[VariantInfo]) -> Iterator[VariantInfo]:
    """The first of each group of :func:`alike`."""
    return (variants[group[0]] for group in alike(variants))
