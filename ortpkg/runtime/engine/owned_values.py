"""Ownership of values' memory: what a run keeps or returns must not change under its owner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from ortpkg.runtime.kernels.device_tensor import DeviceTensor
from ortpkg.runtime.kernels.op_kernel import Tensor, Value


def as_shaped(buffer: Tensor, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
    """Return the same bytes with another shape and element type of the same total size."""
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
    """Return True if ``array`` may lie in the memory of one of a kernel's inputs."""
    for argument in arguments:  # a plain loop, since every result of a library passes here
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
    """Return a sequence whose elements share no memory with the inputs of the kernel."""
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
    """Return a deep copy of a value's arrays."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list):
        return [copied(element) for element in value]
    if isinstance(value, dict):
        return {key: copied(element) for key, element in value.items()}
    return value
