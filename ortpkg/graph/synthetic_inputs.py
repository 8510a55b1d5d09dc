"""Random inputs for a model without samples: seeded, with its declared types and shapes.

Open dimensions get a size by their name, the same in all inputs (docs/benchmarking.md): a first
dimension or one called batch: 1; height, width: 224; sequence, length, token, time: 64; others: 8.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.graph.declared_values import DeclaredValue, declared_element_type
from ortpkg.graph.types import numpy_dtype

SEED = 0
_SIZES: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"batch", re.IGNORECASE), 1),
    (re.compile(r"height|width", re.IGNORECASE), 224),
    (re.compile(r"seq|len|token|time", re.IGNORECASE), 64),
)
_OTHER_SIZE = 8
_MOST_NBYTES = 1 << 30


def synthetic_feed(
    inputs: Sequence[DeclaredValue],
    *,
    sizes: Mapping[str, int],
    ranges: Mapping[str, tuple[float, float]],
    seed: int = SEED,
) -> dict[str, npt.NDArray[Any]]:
    """Return one feed for a model with these inputs, the same for every call with the same seed.

    Args:
        inputs: Declared inputs of the model.
        sizes: Sizes of dimensions, as far as the caller says.
        ranges: Least and greatest value by input, as far as the package says (images). Otherwise
            floating-point values are normally distributed around 0, and integers are 0 or 1, which
            every embedding table has.
        seed: Seed of the random numbers.

    Raises:
        UsageError: No input has a dimension in ``sizes``, or an input is not a tensor, has no rank,
            or is larger than 1 GiB.
    """
    check_sizes(inputs, sizes)
    generator = np.random.default_rng(seed)
    return {
        declared.name: _values(
            declared, _shape(declared, sizes), ranges.get(declared.name), generator
        )
        for declared in inputs
    }


def check_sizes(inputs: Sequence[DeclaredValue], sizes: Mapping[str, int]) -> None:
    """Raise UsageError for the size of a dimension that no input has."""
    names = sorted(
        {size for declared in inputs for size in declared.shape or () if isinstance(size, str)}
    )
    for name in sizes:
        if name not in names:
            listed = ", ".join(map(quoted, names)) or "none"
            raise UsageError(
                f"no input has a dimension {quoted(name)}{did_you_mean(name, names)}; they have"
                f" {listed}"
            )


def _shape(declared: DeclaredValue, sizes: Mapping[str, int]) -> tuple[int, ...]:
    if declared.shape is None:
        raise UsageError(
            f"input {quoted(declared.name)} ({quoted(declared.type)}) has no known shape, so that"
            " no values for it can be made up; give the package samples (samples/samples.json)"
        )
    return tuple(_size(dimension, axis, sizes) for axis, dimension in enumerate(declared.shape))


def _size(dimension: int | str | None, axis: int, sizes: Mapping[str, int]) -> int:
    if isinstance(dimension, int):
        return dimension
    name = dimension or ""
    if name in sizes:
        return sizes[name]
    named = next((size for pattern, size in _SIZES if pattern.search(name)), None)
    if named is not None:
        return named
    return 1 if axis == 0 else _OTHER_SIZE


def _values(
    declared: DeclaredValue,
    shape: tuple[int, ...],
    value_range: tuple[float, float] | None,
    generator: np.random.Generator,
) -> npt.NDArray[Any]:
    dtype = _dtype(declared)
    nbytes = dtype.itemsize
    for size in shape:
        nbytes *= size
    if nbytes > _MOST_NBYTES:
        raise UsageError(
            f"input {quoted(declared.name)} would have {nbytes} bytes: shape {list(shape)}"
        )
    if dtype.kind == "O":
        return np.full(shape, "a", dtype=object)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    if value_range is not None:
        return generator.uniform(*value_range, shape).astype(dtype)
    if dtype.kind in "iu":
        return generator.integers(0, 2, shape).astype(dtype)
    return np.asarray(generator.standard_normal(shape)).astype(dtype)


def _dtype(declared: DeclaredValue) -> np.dtype[Any]:
    element_type = declared_element_type(declared.type)
    if element_type is None:
        raise UsageError(
            f"input {quoted(declared.name)} is {quoted(declared.type)}: no values for it can be"
            " made up"
        )
    return numpy_dtype(element_type)
