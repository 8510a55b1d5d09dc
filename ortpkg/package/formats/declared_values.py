"""Inputs and outputs as manifest.json and pipeline.json state them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ortpkg.package.package_info import ValueInfo


def read_value_infos(declared: Iterable[Mapping[str, Any]] | None) -> tuple[ValueInfo, ...]:
    """Values from JSON that has passed its schema; none where nothing is declared."""
    return tuple(
        ValueInfo(
            name=value["name"],
            type=value["type"],
            shape=_read_shape(value.get("shape")),
            value_range=_read_range(value.get("value_range")),
        )
        for value in declared or ()
    )


def _read_range(bounds: Sequence[float] | None) -> tuple[float, float] | None:
    return None if bounds is None else (float(bounds[0]), float(bounds[1]))


def _read_shape(
    shape: Iterable[int | float | str | None] | None,
) -> tuple[int | str | None, ...] | None:
    if shape is None:
        return None
    # JSON Schema counts 1.0 as an integer.
    return tuple(int(size) if isinstance(size, float) else size for size in shape)
