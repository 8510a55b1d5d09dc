"""Runs what schedules make of an operation on numpy arrays, natively and with bounds checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ortpkg.compiler.emission.llvm_kernel import EmissionOptions, kernel_function
from ortpkg.compiler.emission.object_compiler import ObjectCompiler
from ortpkg.compiler.loop_ir.kernel_text import kernel_text
from ortpkg.compiler.machine_code.program import Condition
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.tensor_ir.elements import Tensor
from ortpkg.graph.shapes.expressions import evaluate
from tests.compiler.native_kernels import Array, run_kernel
from tests.compiler.native_targets import NativeTarget
from tests.compiler.reference_elements import DTYPES


def run_scheduled(
    kernels: Sequence[ScheduledKernel],
    arrays: Mapping[Tensor, Array],
    target: NativeTarget,
    symbols: Mapping[str, int] | None = None,
    *,
    run: Callable[..., int] = run_kernel,
) -> dict[Tensor, Array]:
    """All kernels one after the other: every tensor, those of ``arrays`` as they were given.

    Those whose conditions do not hold are left out. Tensors that are not given are made, full of
    0x55. ``run``: what runs a kernel, as
    :func:`run_kernel` does.
    """
    known, made = symbols or {}, dict(arrays)
    for scheduled in kernels:
        if not all(_holds(each, known) for each in scheduled.conditions):
            continue
        for tensor in scheduled.buffers:
            if tensor in scheduled.packed and tensor not in made:
                packing = scheduled.packed[tensor]
                made[tensor] = packing.pack(made[packing.source])
                shape = [evaluate(size, known) for size in tensor.shape]
                assert made[tensor].shape == tuple(shape), tensor.name
                assert made[tensor].dtype == DTYPES[tensor.scalar], tensor.name
            if tensor not in made:
                shape = [evaluate(size, known) for size in tensor.shape]
                nbytes = int(np.prod(shape, dtype=np.int64)) * tensor.scalar.nbytes
                made[tensor] = np.frombuffer(bytearray(b"\x55" * nbytes), DTYPES[tensor.scalar])
                made[tensor] = made[tensor].reshape(shape)
        failed = run(
            scheduled.kernel,
            [np.ascontiguousarray(made[each]) for each in scheduled.buffers],
            [evaluate(size, known) for size in scheduled.sizes],
            tile_count=evaluate(scheduled.tile_count, known),
            cpu=target.cpu,
            features=target.features,
        )
        assert failed == 0, f"access {failed} is outside in\n{kernel_text(scheduled.kernel)}"
    return made


def _holds(condition: Condition, symbols: Mapping[str, int]) -> bool:
    size = evaluate(condition.size, symbols)
    return condition.least <= size and (condition.most is None or size <= condition.most)


def compile_for_aarch64(kernels: Sequence[ScheduledKernel]) -> None:
    """Compiles and links, and runs nothing."""
    compiler = ObjectCompiler(
        triple="aarch64-unknown-linux-gnu", cpu="generic", features=("+reserve-x18",)
    )
    for scheduled in kernels:
        compiler.link(kernel_function(scheduled.kernel, "kernel", EmissionOptions()))
