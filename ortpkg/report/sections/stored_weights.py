"""Content that several variants of a package share: its size, and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ortpkg.authoring.variant_sizes import (
    FilesByVariant,
    SharedBytes,
    VariantKey,
    shared_by,
    sizes_of,
)
from ortpkg.foundations.drawing.palette import FILL_COUNT, fill_kind
from ortpkg.foundations.drawing.scales import Scale
from ortpkg.foundations.drawing.svg import box, figure, shortened, text
from ortpkg.foundations.quantities import nbytes_text
from ortpkg.package.package_info import PackageInfo
from ortpkg.report.sections.section import MOST_ROWS, left_out

#: Most bars of a picture: of variants, and of shared parts, each with its own colour.
_MOST_BARS = 40
_MOST_SHARED = FILL_COUNT - 1  # the first fill looks like a variant's own bar
_MOST_NAMES = 20

_LABELS_END = 190
_SIZES_END = 262
_BARS_START = 270
_BARS_END = 640
_WIDTH = 1108
_ROW_HEIGHT = 26
_BAR_HEIGHT = 16
_LEAST_BAR = 2
_LONGEST_LABEL = 28
_LONGEST_USERS = 64
#: Size of a coloured chip in a variant's row, which says that it uses the part of that colour.
_CHIP = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPart:
    """Content of one variant alone, or of several together.

    Attributes:
        label: Name of the variant, or letter of the shared part.
        nbytes: Size of the files in bytes.
        files: Paths of a shared part in the package, in words; "" for a variant.
        users: Variants that use a shared part, in words; "" for a variant.
        letters: Letters of the shared parts that a variant uses.
    """

    label: str
    nbytes: int
    files: str = ""
    users: str = ""
    letters: tuple[str, ...] = ()

    @property
    def size(self) -> str:
        """Size in words."""
        return nbytes_text(self.nbytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWeights:
    """Content that the variants of a package share.

    Attributes:
        summary: Number of bytes, and the number if nothing were shared.
        own: Content of each variant alone, in declaration order.
        shared: Shared parts, largest first.
        left_out: Sentence on what is not shown.
        picture: Picture of both.
    """

    summary: str
    own: tuple[StoredPart, ...]
    shared: tuple[StoredPart, ...]
    left_out: str
    picture: str


def stored_weights(info: PackageInfo, files: FilesByVariant) -> StoredWeights | None:
    """Return the content that several variants use, or None."""
    groups = shared_by(files)
    if not groups:
        return None
    own = tuple(_own_parts(info, files, groups[:_MOST_SHARED]))
    shared = tuple(_shared_parts(info, groups[:_MOST_SHARED]))
    more = (len(files) - len(own)) + (len(groups) - len(shared))
    return StoredWeights(
        summary=_summary(files, groups),
        own=own,
        shared=shared,
        left_out=left_out(more, "variants and shared parts", "ortpkg inspect --tree"),
        picture=_picture(own, shared),
    )


def _summary(files: FilesByVariant, groups: Sequence[SharedBytes]) -> str:
    sizes = sizes_of(files).values()
    once = sum(item.own_nbytes for item in sizes) + sum(item.nbytes for item in groups)
    apart = sum(item.own_nbytes + item.shared_nbytes for item in sizes)
    return (
        f"What several variants use lies once: {nbytes_text(once)} in all, where"
        f" {nbytes_text(apart)} would lie if every variant had files of its own."
    )


def _own_parts(
    info: PackageInfo, files: FilesByVariant, groups: Sequence[SharedBytes]
) -> Iterator[StoredPart]:
    sizes = sizes_of(files)
    users = [(_letter(index), frozenset(group.users)) for index, group in enumerate(groups)]
    for key in list(files)[:MOST_ROWS]:
        yield StoredPart(
            label=_variant_label(key, info),
            nbytes=sizes[key].own_nbytes,
            letters=tuple(letter for letter, keys in users if key in keys),
        )


def _shared_parts(info: PackageInfo, groups: Sequence[SharedBytes]) -> Iterator[StoredPart]:
    for index, group in enumerate(groups):
        yield StoredPart(
            label=_letter(index),
            nbytes=group.nbytes,
            files=_listed([path.name for path in group.files]),
            users=_listed([_variant_label(key, info) for key in group.users]),
        )


def _letter(index: int) -> str:
    return chr(ord("A") + index)


def _variant_label(key: VariantKey, info: PackageInfo) -> str:
    component, variant = key
    return variant if len(info.components) == 1 else f"{component} / {variant}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    listed = ", ".join(names[:_MOST_NAMES])
    return f"{listed} and {more} more" if more > 0 else listed


def _picture(own: Sequence[StoredPart], shared: Sequence[StoredPart]) -> str:
    drawn = own[:_MOST_BARS]
    greatest = max((part.nbytes for part in (*drawn, *shared)), default=0)
    scale = Scale(start=_BARS_START, end=_BARS_END, greatest=float(greatest or 1))
    parts: list[str] = []
    y = 0
    for heading, rows in (("shared, lies once", shared), ("of one variant", drawn)):
        parts.append(text(_LABELS_END, y + 14, heading, kind="small", text_anchor="end"))
        y += _ROW_HEIGHT
        for part in rows:
            parts += _row(part, y, scale)
            y += _ROW_HEIGHT
    return figure(
        parts,
        width=_WIDTH,
        height=y,
        name="stored-weights",
        title="Bytes of each variant alone, and bytes that several variants share",
        description="The table below has the same numbers.",
    )


def _row(part: StoredPart, y: int, scale: Scale) -> Iterator[str]:
    baseline = y + _BAR_HEIGHT - 3
    yield text(_LABELS_END, baseline, shortened(part.label, _LONGEST_LABEL), text_anchor="end")
    yield text(_SIZES_END, baseline, part.size, text_anchor="end")
    end = float(_BARS_START)
    if part.nbytes:
        kind = _fill(part.label) if part.users else "bar"
        length = max(scale.length(part.nbytes), _LEAST_BAR)
        yield box(end, y, length, _BAR_HEIGHT, kind=kind, title=part.users or part.label)
        end += length + 8
    if part.users:
        users = f"used by {shortened(part.users, _LONGEST_USERS)}"
        yield text(end, baseline, users, kind="small")
    for index, letter in enumerate(part.letters):
        x = end + index * (_CHIP + 4)
        yield box(x, y, _CHIP, _CHIP, rx="3", kind=_fill(letter))
        yield text(x + _CHIP / 2, baseline, letter, text_anchor="middle")


def _fill(letter: str) -> str:
    return fill_kind(ord(letter) - ord("A") + 1)
