"""Memory of an execution provider, and copies of values into it and out of it.

There are two kinds. Memory that the CPU reads and writes, too, consists of arrays: values pass
between such memories without a copy. Memory that the CPU cannot read consists of blocks that only
its own allocator understands; values there are DeviceTensors, and cross in copy nodes that the
session puts into the graph (docs/adr/0013-memory-of-an-ep.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.runtime.kernels.device_tensor import DeviceTensor
from ortpkg.runtime.kernels.op_kernel import Tensor


class Allocator(ABC):
    """Interface by which a provider hands out its memory.

    Two allocators with the same ``name`` hand out the same memory: values in it are never copied
    between their providers.

    Attributes:
        name: name of the memory, e.g. "Cpu"; if there are several of a kind, with a number
            ("Acme:1").
        alignment: alignment of every block and of every offset in it, in bytes; a power of two.
        is_host_accessible: True if the CPU reads and writes this memory, and its provider the
            CPU's.
        is_divisible: True if several tensors may lie in one block, each at its own offset.
    """

    name = "Cpu"
    alignment = 64
    is_host_accessible = True
    is_divisible = True

    @abstractmethod
    def allocate(self, nbytes: int) -> Any:
        """Return a block of ``nbytes`` bytes, whose address is a multiple of ``alignment``.

        In memory that the CPU reads it is a one-dimensional uint8 array. It is freed when nothing
        refers to it.
        """


class CPUAllocator(Allocator):
    """numpy's memory, blocks aligned to a cache line."""

    def allocate(self, nbytes: int) -> npt.NDArray[Any]:
        block = np.empty(nbytes + self.alignment, dtype=np.uint8)
        start = -block.ctypes.data % self.alignment
        return block[start : start + nbytes]


class DeviceAllocator(Allocator):
    """Memory that the CPU cannot read; a copy is complete when its method returns.

    Attributes:
        device_name: onnxruntime's word for the device, e.g. "cuda".
        seconds_per_copy, seconds_per_byte: estimated time of a copy to or from the CPU's memory;
            plans weigh copies by it.
    """

    name = "Device"
    device_name = "device"
    is_host_accessible = False
    seconds_per_copy = 10e-6
    seconds_per_byte = 1 / 10e9

    @abstractmethod
    def copy_from_host(self, source: Tensor, target: DeviceTensor) -> None:
        """Write a C-contiguous array into a tensor of the same shape and type in this memory."""

    @abstractmethod
    def copy_to_host(self, source: DeviceTensor, target: Tensor) -> None:
        """Write a tensor of this memory into a C-contiguous array of the same shape and type."""

    def upload(self, source: Tensor) -> DeviceTensor:
        """Return a new tensor in this memory with the elements of a C-contiguous array."""
        block = self.allocate(max(source.nbytes, 1))
        target = DeviceTensor(
            memory=self.name, block=block, offset=0, shape=source.shape, dtype=source.dtype
        )
        self.copy_from_host(source, target)
        return target

    def download(self, source: DeviceTensor) -> Tensor:
        """Return a new array with the elements of a tensor of this memory."""
        target = np.empty(source.shape, source.dtype)
        self.copy_to_host(source, target)
        return target

    def copy(self, source: DeviceTensor, target: DeviceTensor) -> None:
        """Copy within this memory; by default by way of the CPU's."""
        self.copy_from_host(self.download(source), target)
