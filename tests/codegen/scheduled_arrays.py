"""Runs what a schedule made of an operation on arrays that its output is among."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortpkg.codegen.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.codegen.tensor_ir.elements import Tensor
from tests.codegen.native_kernels import Array
from tests.codegen.native_targets import NativeTarget
from tests.codegen.scheduled_kernels import run_scheduled

__all__ = ["Array", "run_schedule"]


def run_schedule(
    kernels: Sequence[ScheduledKernel],
    arrays: Mapping[Tensor, Array],
    target: NativeTarget,
    symbols: Mapping[str, int] | None = None,
) -> None:
    """As :func:`run_scheduled`, for tests that need none of the tensors in between."""
    run_scheduled(kernels, arrays, target, symbols)
