"""The variants of a component, each made when somebody looks at it: of thousands, most are never looked at.

What a package says of them is checked when it is opened; making one checks nothing, reads nothing and cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, overload

from ortpkg.package.package_info import Constraints, VariantInfo

CheckedT = TypeVar("CheckedT")


class Alike(NamedTuple):
    """Variants of a component that state the same constraints and provider options, by their places, in order."""

    constraints: Constraints
    provider_options: Mapping[str, str]
    places: list[int]


class LazyVariants(Sequence[VariantInfo], Generic[CheckedT]):
    """A tuple of variants that are made at the first look. Compares, prints and pickles as that tuple.

    Args:
        checked: what was read of each variant, with a key: variants with equal keys state the same constraints and the
            same provider options.
        stated: these constraints and provider options.
        make: the variant of what was read.
    """

    __slots__ = ("_alike", "_checked", "_made", "_make")

    def __init__(
        self,
        checked: Iterable[tuple[CheckedT, Hashable]],
        *,
        stated: Callable[[CheckedT], tuple[Constraints, Mapping[str, str]]],
        make: Callable[[CheckedT], VariantInfo],
    ) -> None:
        self._checked: list[CheckedT] = []
        self._make = make
        groups: dict[Hashable, list[int]] = {}
        for place, (each, key) in enumerate(checked):
            self._checked.append(each)
            group = groups.get(key)
            if group is None:
                groups[key] = [place]
            else:
                group.append(place)
        self._made: list[VariantInfo | None] = [None] * len(self._checked)
        self._alike = [Alike(*stated(self._checked[places[0]]), places) for places in groups.values()]

    @property
    def alike(self) -> Sequence[Alike]:
        """See :func:`alike`."""
        return self._alike

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


def alike(variants: Sequence[VariantInfo]) -> Sequence[Alike]:
    """``variants`` in groups of which each states the same constraints and provider options; first mention first.

    Two groups may state the same too: it is a saving, not a comparison.
    """
    if isinstance(variants, LazyVariants):
        return variants.alike
    return [Alike(each.constraints, each.provider_options, [place]) for place, each in enumerate(variants)]
