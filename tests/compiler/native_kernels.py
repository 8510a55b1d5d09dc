"""Runs kernels of the loop IR as machine code of this machine, for tests of what makes them."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.compiler.emission.elf_object import LinkedCode
from ortpkg.compiler.emission.llvm_kernel import EmissionOptions, kernel_function
from ortpkg.compiler.emission.object_compiler import ObjectCompiler
from ortpkg.compiler.loop_ir.kernel import Kernel
from ortpkg.compiler.loop_ir.kernel_verifier import verify_kernel

Array = npt.NDArray[Any]


def run_kernel(
    kernel: Kernel,
    buffers: Sequence[Array],
    sizes: Sequence[int] = (),
    *,
    tile_count: int,
    cpu: str = "x86-64-v3",
    features: Sequence[str] = (),
    is_checked: bool = True,
) -> int:
    """Runs all tiles on C-contiguous arrays, outputs among them; returns ``status[1]``.

    That is 0 where no access was outside of its buffer.
    """
    verify_kernel(kernel)
    options = EmissionOptions(
        attributes='"prefer-vector-width"="512"',
        features=frozenset(each.removeprefix("+") for each in features),
        converts_half=cpu != "x86-64-v2",
        is_checked=is_checked,
    )
    code = _linked(kernel_function(kernel, "kernel", options), cpu, tuple(features))
    memory = mmap.mmap(-1, len(code.data), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code.data)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    pointer, word = ctypes.c_void_p, ctypes.c_int64
    prototype = ctypes.CFUNCTYPE(None, pointer, pointer, word, word, pointer, pointer)
    function = prototype(start + code.functions["kernel"])
    addresses = np.array([each.ctypes.data for each in buffers], np.int64)
    numbers = np.array([*sizes, *(each.nbytes for each in buffers)], np.int64)
    status, scratch = np.zeros(8, np.int64), np.zeros(kernel.scratch_nbytes + 64, np.uint8)
    aligned = scratch.ctypes.data + -scratch.ctypes.data % 64
    function(addresses.ctypes.data, numbers.ctypes.data, 0, tile_count, aligned, status.ctypes.data)
    return int(status[1])


@lru_cache(maxsize=256)
def _linked(module_text: str, cpu: str, features: tuple[str, ...]) -> LinkedCode:
    """Tests of open sizes run one kernel for many; it is compiled once."""
    compiler = ObjectCompiler(triple="x86_64-unknown-linux-gnu", cpu=cpu, features=features)
    return compiler.link(module_text)
