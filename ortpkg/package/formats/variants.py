"""The variants of a component, each made only when somebody looks at it.

What a package says of them is checked when it is opened; making one checks nothing, reads nothing
and cannot fail.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, overload

from ortpkg.documents.frozen import EMPTY, TupleLike
from ortpkg.package.package_info import ComponentInfo, Constraints, VariantInfo


class CheckedVariant(Protocol):
    """What was read of a variant that keeps every rule.

    Variants with equal constraints should share one object.
    """

    @property
    def name(self) -> str:
        """Unique in its component."""

    @property
    def constraints(self) -> Constraints:
        """What it needs of a machine."""

    @property
    def model_path(self) -> str | None:
        """The model file; None where the variant is a set of files."""

    @property
    def session_options(self) -> Mapping[str, str]:
        """Keys and values as the package states them, not yet judged by trust."""

    @property
    def provider_options(self) -> Mapping[str, str]:
        """Likewise, of its execution provider."""

    def make(self) -> VariantInfo:
        """The variant as a value."""


class Alike(NamedTuple):
    """Variants that state the same constraints and provider options, by their places, in order."""

    constraints: Constraints
    provider_options: Mapping[str, str]
    places: list[int]


class LazyVariants(TupleLike[VariantInfo]):
    """A tuple of variants, each of which is made at the first look at it.

    Attributes:
        checked: what was read of each variant.
    """

    __slots__ = ("_alike", "_made", "checked")

    def __init__(self, checked: Iterable[CheckedVariant]) -> None:
        self.checked: Sequence[CheckedVariant] = list(checked)
        groups: dict[Hashable, list[int]] = {}
        for place, each in enumerate(self.checked):
            options = each.provider_options
            # By identity: hashing constraints takes longer than all else here.
            has_options = options is not EMPTY and options  # nearly all have none
            key = (
                (id(each.constraints), tuple(options.items()))
                if has_options
                else id(each.constraints)
            )
            group = groups.get(key)
            if group is None:
                groups[key] = [place]
            else:
                group.append(place)
        firsts = ((self.checked[places[0]], places) for places in groups.values())
        self._alike = [
            Alike(first.constraints, first.provider_options, places) for first, places in firsts
        ]
        self._made: list[VariantInfo | None] = [None] * len(self.checked)

    @property
    def alike(self) -> Sequence[Alike]:
        """See :func:`alike`."""
        return self._alike

    def _at(self, place: int) -> VariantInfo:
        made = self._made[place]
        if made is None:  # two threads may both make it: one of two equal values stays
            made = self._made[place] = self.checked[place].make()
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


def checked_variants(component: ComponentInfo) -> Sequence[CheckedVariant]:
    """What was read of the variants of a component that a reader has just made."""
    assert isinstance(component.variants, LazyVariants), "readers make no others"
    return component.variants.checked


def alike(variants: Sequence[VariantInfo]) -> Sequence[Alike]:
    """``variants`` in groups of which each states the same constraints and provider options.

    Groups stand in the order of their first variants.

    Two groups may state the same too: it is a saving, not a comparison.
    """
    if isinstance(variants, LazyVariants):
        return variants.alike
    groups: dict[tuple[object, ...], Alike] = {}
    for place, each in enumerate(variants):
        stated, options = each.constraints, each.provider_options
        # The texts themselves: hashing and comparing constraints takes several times as long.
        key: tuple[object, ...] = (
            stated.ep,
            stated.device,
            stated.architecture,
            stated.ep_compatibility_info,
        )
        if options:
            key = (*key, *options.items())
        group = groups.get(key)
        if group is None:
            groups[key] = Alike(stated, options, [place])
        else:
            group.places.append(place)
    return list(groups.values())
