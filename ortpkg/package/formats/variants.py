"""Variants of a component, each made only when somebody looks at it.

The package's statements about them are checked when it is opened; making one checks nothing, reads
nothing and cannot fail.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, overload

from ortpkg.foundations.documents.frozen import EMPTY, TupleLike
from ortpkg.package.package_info import ComponentInfo, Constraints, VariantInfo


class CheckedVariant(Protocol):
    """Checked content of a variant.

    Variants with equal constraints should share one object.
    """

    @property
    def name(self) -> str:
        """Name, unique in its component."""

    @property
    def constraints(self) -> Constraints:
        """Requirements on a machine."""

    @property
    def model_path(self) -> str | None:
        """Path to the model file; None if the variant is a set of files."""

    @property
    def session_options(self) -> Mapping[str, str]:
        """Session options as the package states them, not yet filtered by trust."""

    @property
    def provider_options(self) -> Mapping[str, str]:
        """Provider options as the package states them, not yet filtered by trust."""

    def make(self) -> VariantInfo:
        """Return the variant as a value."""


class AlikeVariants(NamedTuple):
    """Variants with the same constraints and provider options.

    ``indices`` are their positions among all variants, in order.
    """

    constraints: Constraints
    provider_options: Mapping[str, str]
    indices: list[int]


class LazyVariants(TupleLike[VariantInfo]):
    """Tuple of variants, each made at the first access.

    Attributes:
        checked: checked content of each variant.
    """

    __slots__ = ("_alike", "_made", "checked")

    def __init__(self, checked: Iterable[CheckedVariant]) -> None:
        self.checked: Sequence[CheckedVariant] = list(checked)
        groups: dict[Hashable, list[int]] = {}
        for index, variant in enumerate(self.checked):
            options = variant.provider_options
            # By identity: hashing constraints would take longer than everything else here.
            has_options = options is not EMPTY and options  # nearly all have none
            key = (
                (id(variant.constraints), tuple(options.items()))
                if has_options
                else id(variant.constraints)
            )
            group = groups.get(key)
            if group is None:
                groups[key] = [index]
            else:
                group.append(index)
        firsts = ((self.checked[indices[0]], indices) for indices in groups.values())
        self._alike = [
            AlikeVariants(first.constraints, first.provider_options, indices)
            for first, indices in firsts
        ]
        self._made: list[VariantInfo | None] = [None] * len(self.checked)

    @property
    def alike(self) -> Sequence[AlikeVariants]:
        """Groups of alike variants; see :func:`alike`."""
        return self._alike

    def _at(self, index: int) -> VariantInfo:
        made = self._made[index]
        if made is None:  # two threads may both make it; one of the equal values is kept
            made = self._made[index] = self.checked[index].make()
        return made

    @overload
    def __getitem__(self, index: int) -> VariantInfo: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[VariantInfo, ...]: ...

    def __getitem__(self, index: int | slice) -> VariantInfo | tuple[VariantInfo, ...]:
        if isinstance(index, slice):
            return tuple(self._at(at) for at in range(*index.indices(len(self._made))))
        return self._at(index)

    def __iter__(self) -> Iterator[VariantInfo]:
        return map(self._at, range(len(self._made)))

    def __len__(self) -> int:
        return len(self._made)


def checked_variants(component: ComponentInfo) -> Sequence[CheckedVariant]:
    """Return the checked content of the variants of a component that a reader has just made."""
    assert isinstance(component.variants, LazyVariants), "readers make no others"
    return component.variants.checked


def alike(variants: Sequence[VariantInfo]) -> Sequence[AlikeVariants]:
    """Group ``variants`` by equal constraints and provider options, in the order of their firsts.

    Two groups may still be equal: the grouping saves work, it is not a comparison.
    """
    if isinstance(variants, LazyVariants):
        return variants.alike
    groups: dict[tuple[object, ...], AlikeVariants] = {}
    for index, variant in enumerate(variants):
        constraints, options = variant.constraints, variant.provider_options
        # A tuple of texts: hashing and comparing constraints takes several times as long.
        key: tuple[object, ...] = (
            constraints.ep,
            constraints.device,
            constraints.architecture,
            constraints.ep_compatibility_info,
        )
        if options:
            key = (*key, *options.items())
        group = groups.get(key)
        if group is None:
            groups[key] = AlikeVariants(constraints, options, [index])
        else:
            group.indices.append(index)
    return list(groups.values())
