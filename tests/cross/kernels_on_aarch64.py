"""Runs kernels of the loop IR as AArch64 code in an emulator, as tests run them natively."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ortpkg.compiler.emission.llvm_kernel import EmissionOptions, kernel_function
from ortpkg.compiler.emission.object_compiler import ObjectCompiler
from ortpkg.compiler.loop_ir.kernel import Kernel, aligned
from ortpkg.compiler.loop_ir.kernel_verifier import verify_kernel
from tests.compiler.native_kernels import Array
from tests.cross.aarch64_process import END_OF_MAIN, MEMORY, run_process

_STATUS_NBYTES = 64
_MAIN = """
define void @main() {{
  %buffers = inttoptr i64 {buffers} to ptr
  %sizes = inttoptr i64 {sizes} to ptr
  %scratch = inttoptr i64 {scratch} to ptr
  %status = inttoptr i64 {status} to ptr
  call void @kernel(ptr %buffers, ptr %sizes, i64 0, i64 {tiles}, ptr %scratch, ptr %status)
  call void @end_process(i64 {nbytes})
  unreachable
}}
"""


def run_kernel_on_aarch64(
    kernel: Kernel,
    buffers: Sequence[Array],
    sizes: Sequence[int] = (),
    *,
    tile_count: int,
    cpu: str = "generic",
    features: Sequence[str] = (),
) -> int:
    """As :func:`tests.compiler.native_kernels.run_kernel`, with bounds checks."""
    verify_kernel(kernel)
    options = EmissionOptions(
        features=frozenset(each.removeprefix("+") for each in features), is_checked=True
    )
    words = [*sizes, *(each.nbytes for each in buffers)]
    sizes_at = MEMORY + _STATUS_NBYTES
    addresses_at = sizes_at + 8 * len(words)
    place = aligned(addresses_at + 8 * len(buffers))
    places = []
    for each in buffers:
        places.append(place)
        place = aligned(place + each.nbytes)
    end = place + kernel.scratch_nbytes
    memory = bytearray(end - MEMORY)
    head = np.array([*words, *places], np.int64).tobytes()
    memory[_STATUS_NBYTES : _STATUS_NBYTES + len(head)] = head
    for at, each in zip(places, buffers, strict=True):
        memory[at - MEMORY : at - MEMORY + each.nbytes] = each.tobytes()
    main = _MAIN.format(
        buffers=addresses_at,
        sizes=sizes_at,
        scratch=place,
        status=MEMORY,
        tiles=tile_count,
        nbytes=len(memory),
    )
    compiler = ObjectCompiler(triple="aarch64-unknown-linux-gnu", cpu=cpu, features=features)
    code = compiler.link(kernel_function(kernel, "kernel", options) + END_OF_MAIN + main)
    with tempfile.TemporaryDirectory() as folder:
        after = run_process(code, bytes(memory), Path(folder))
    for at, each in zip(places, buffers, strict=True):
        part = after[at - MEMORY : at - MEMORY + each.nbytes]
        if each.flags.writeable:
            each[...] = np.frombuffer(part, each.dtype).reshape(each.shape)
    return int(np.frombuffer(after, np.int64, 2)[1])
