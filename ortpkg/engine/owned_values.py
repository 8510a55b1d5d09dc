"""Whose memory a value lies in: what a run keeps and gives away must not change under its owner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from ortpkg.kernels.device_tensor import DeviceTensor
from ortpkg.kernels.op_kernel import Tensor, Value


def as_shaped(buffer: Tensor, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
    """The same bytes under another shape and element type of the same total size."""
    if buffer.shape == shape and buffer.dtype == dtype:
        return buffer
    if isinstance(buffer, DeviceTensor):
        return cast(Tensor, buffer.viewed_as(shape, dtype))
    if not buffer.nbytes:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, buffer=buffer.reshape(-1).view(np.uint8).data)


def _arrays_of(values: Sequence[Value]) -> Iterator[Tensor]:
    return (value for value in values if isinstance(value, np.ndarray))


def may_share_memory(array: Tensor, arguments: Sequence[Value]) -> bool:
    """Whether ``array`` lies in the memory of one of the tensors that a kernel was given."""
    for argument in arguments:  # plain, since every result of a library comes by here
        if array is argument:
            return True
        if (
            array.base is not None
            and isinstance(argument, np.ndarray)
            and np.may_share_memory(array, argument)
        ):
            return True
    return False


def without_shared_elements(sequence: list[Value], arguments: Sequence[Value]) -> list[Value]:
    """A sequence none of whose elements lies in memory of tensors that the kernel was given."""
    return [
        (
            element.copy()
            if isinstance(element, np.ndarray)
            and may_share_memory(element, list(_arrays_of(arguments)))
            else element
        )
        for element in sequence
    ]


def copied(value: Value) -> Value:
    """A deep copy of a value's arrays."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list):
        return [copied(element) for element in value]
    if isinstance(value, dict):
        return {key: copied(element) for key, element in value.items()}
    return value
