"""Tensor in memory that the CPU cannot read: its address, shape and element type.

It does not have the elements. Only the allocator that owns the memory, and kernels of the providers
that compute there, can use it. Code that would read it in passing (``numpy.asarray``, iteration,
arithmetic) gets a TypeError: only a copy node, which the plan shows, moves a value from one memory
to another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Never

import numpy as np


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DeviceTensor:
    """Range of ``nbytes`` bytes in a block of a device's memory, C-contiguous.

    Attributes:
        memory: name of the memory, as its allocator has it.
        block: handle from the allocator, which alone can interpret it.
        offset: offset of the first element, in bytes.
        shape, dtype: as in numpy.
    """

    memory: str
    block: Any
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Size of all elements in bytes."""
        return self.size * self.dtype.itemsize

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def shares_bytes_with(self, other: object) -> bool:
        """Return True if ``other`` is a tensor of the same block and their ranges overlap."""
        if not isinstance(other, DeviceTensor) or other.block is not self.block:
            return False
        return (
            self.offset < other.offset + other.nbytes and other.offset < self.offset + self.nbytes
        )

    def viewed_as(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceTensor:
        """Return a tensor of the same bytes with another shape and element type.

        Raises:
            ValueError: these need another number of bytes.
        """
        view = DeviceTensor(
            memory=self.memory, block=self.block, offset=self.offset, shape=shape, dtype=dtype
        )
        if view.nbytes != self.nbytes:
            raise ValueError(
                f"{self} has {self.nbytes} bytes, {dtype}{list(shape)} needs {view.nbytes}"
            )
        return view

    def __array__(self, *_arguments: Any, **_keywords: Any) -> Never:
        raise TypeError(
            f"{self}: the CPU cannot read it; it is copied by the allocator of that memory"
        )

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)} in memory {self.memory!r}"
