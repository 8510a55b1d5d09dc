"""Addresses of numpy arrays, which small models need quickly in each run.

numpy's Python interface builds a dictionary or an object for it, which takes a microsecond each.
Its C interface is a macro that reads a field: an array is Python's object head, followed by the
address of its first element (``PyArrayObject_fields`` in numpy's ``ndarraytypes.h``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: Size of Python's object head: an object without fields.
_HEAD_NBYTES = object.__basicsize__
_pointer_at = ctypes.c_size_t.from_address


def _address_by_field(array: Array) -> int:
    return _pointer_at(id(array) + _HEAD_NBYTES).value


def _address_by_interface(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _choose() -> Callable[[Array], int]:
    """Return the quick way if it agrees with numpy, as it does on CPython."""
    samples = (np.arange(5), np.arange(6.0).reshape(2, 3)[:, 1], np.empty((0, 2), np.int8))
    is_right = all(_address_by_field(array) == _address_by_interface(array) for array in samples)
    return _address_by_field if is_right else _address_by_interface


#: Returns the address of an array's first element.
address_of: Callable[[Array], int] = _choose()
