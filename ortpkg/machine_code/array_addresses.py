"""Where the elements of numpy arrays lie, asked for at each run of a small model.

numpy tells by building a dictionary, or an object, which takes a microsecond each. Its C interface
is a macro that reads a field: an array is Python's head of an object, and the address of its first
element behind that (``PyArrayObject_fields`` in numpy's ``ndarraytypes.h``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: How long the head is: an object that has nothing else.
_HEAD_NBYTES = object.__basicsize__
_pointer_at = ctypes.c_size_t.from_address


def _address_by_field(array: Array) -> int:
    return _pointer_at(id(array) + _HEAD_NBYTES).value


def _address_by_interface(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _choose() -> Callable[[Array], int]:
    """The quick way where it gives what numpy says, as it does on CPython."""
    samples = (np.arange(5), np.arange(6.0).reshape(2, 3)[:, 1], np.empty((0, 2), np.int8))
    is_right = all(_address_by_field(each) == _address_by_interface(each) for each in samples)
    return _address_by_field if is_right else _address_by_interface


#: The address of an array's first element.
address_of: Callable[[Array], int] = _choose()
