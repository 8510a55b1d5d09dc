"""Check the results of foreign code against the graph: kinds, element types, ranks, known sizes.

Checks are created once per node and run every time: they copy nothing and look at no elements,
except those of sequences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ortpkg.foundations.errors import unquoted
from ortpkg.graph.types import (
    ElementType,
    MapType,
    OptionalType,
    SequenceType,
    TensorType,
    ValueType,
    numpy_dtype,
)
from ortpkg.runtime.kernels.device_tensor import DeviceTensor
from ortpkg.runtime.kernels.op_kernel import Value

#: Return True if a value matches its declaration.
Fits = Callable[[Value], bool]


def value_check(declared: ValueType | None, *, with_shape: bool) -> Fits | None:
    """Return a function that checks a value's type; None if nothing is known of the type.

    ``with_shape``: True to compare sizes, too.
    """
    if isinstance(declared, TensorType):
        return _tensor_check(declared, with_shape=with_shape)
    if isinstance(declared, SequenceType):
        member = value_check(declared.element, with_shape=with_shape)
        return lambda value: isinstance(value, list) and (member is None or all(map(member, value)))
    if isinstance(declared, OptionalType):
        inner = value_check(declared.element, with_shape=with_shape)
        return lambda value: value is None or inner is None or inner(value)
    if isinstance(declared, MapType):
        return lambda value: isinstance(value, dict)
    return None


def is_value(value: Value) -> bool:
    """Return True unless it is a number or text of Python, which no value can be."""
    return not isinstance(value, int | float | complex | str | bytes)


def _tensor_check(declared: TensorType, *, with_shape: bool) -> Fits | None:
    if declared.element_type is ElementType.UNDEFINED:
        return None
    if declared.element_type is ElementType.STRING and with_shape:
        return _text_check(declared)
    dtype: np.dtype[Any] = np.dtype(numpy_dtype(declared.element_type))
    shape = declared.shape if with_shape else None
    fixed = [(axis, size) for axis, size in enumerate(shape or ()) if isinstance(size, int)]
    kinds = "OUS" if declared.element_type is ElementType.STRING else ""

    def fits(value: Value) -> bool:
        if type(value) is np.ndarray and value.dtype is dtype and value.shape == shape:
            return True  # the usual case, checked quickly
        if not isinstance(value, np.ndarray | DeviceTensor):
            return False
        if value.dtype is not dtype and value.dtype != dtype and value.dtype.kind not in kinds:
            return False
        if shape is None:
            return True
        sizes = value.shape
        if len(sizes) != len(shape):
            return False
        for axis, size in fixed:  # noqa: SIM110 - all(...) would make a generator at each run
            if sizes[axis] != size:
                return False
        return True

    return fits


def _text_check(declared: TensorType) -> Fits:
    """Return a check that looks at each element, since an array of objects may hold anything."""
    shape = declared.shape

    def fits(value: Value) -> bool:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "OU":
            return False
        if value.dtype.kind == "O" and not all(isinstance(element, str) for element in value.flat):
            return False
        sizes = shape if shape is not None else value.shape
        pairs = zip(sizes, value.shape, strict=False)
        return len(sizes) == value.ndim and all(
            not isinstance(size, int) or size == actual for size, actual in pairs
        )

    return fits


def shown_type(declared: ValueType | None) -> str:
    """Return a type for messages: "tensor(float)[2, 'N']"."""
    shape = declared.shape if isinstance(declared, TensorType) else None
    return f"{declared}{'' if shape is None else list(shape)}"


def shown_value(value: Value) -> str:
    """Return a description of a value for messages: "float64[2]", or the name of its class."""
    is_tensor = isinstance(value, np.ndarray | DeviceTensor)
    return unquoted(f"{value.dtype}{list(value.shape)}" if is_tensor else type(value).__name__)
