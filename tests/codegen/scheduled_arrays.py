"""Runs what a schedule made of an operation on numpy arrays, for tests of schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.codegen.tensor_ir.elements import Tensor
from ortpkg.shapes.expressions import evaluate
from tests.codegen.native_kernels import run_kernel
from tests.codegen.native_targets import NativeTarget

Array = npt.NDArray[Any]


def run_schedule(
    kernels: Sequence[ScheduledKernel],
    arrays: Mapping[Tensor, Array],
    target: NativeTarget,
    symbols: Mapping[str, int] | None = None,
) -> None:
    """Runs kernels in order, with bounds checks; outputs are among the arrays.

    Constants are packed as the kernels ask for; temporary tensors are made, every byte of them 255:
    NaN, or -1.
    """
    known, numbers = dict(arrays), symbols or {}
    for scheduled in kernels:
        for tensor in scheduled.buffers:
            if tensor in known:
                continue
            shape = [evaluate(size, numbers) for size in tensor.shape]
            packing = scheduled.packed.get(tensor)
            if packing is None:
                known[tensor] = _garbage(shape, numpy_type(tensor.scalar))
            else:
                known[tensor] = np.ascontiguousarray(packing.pack(known[packing.source]))
                assert known[tensor].shape == tuple(shape), tensor.name
                assert known[tensor].dtype == numpy_type(tensor.scalar), tensor.name
        failed = run_kernel(
            scheduled.kernel,
            [known[tensor] for tensor in scheduled.buffers],
            [evaluate(size, numbers) for size in scheduled.sizes],
            tile_count=evaluate(scheduled.tile_count, numbers),
            cpu=target.cpu,
            features=target.features,
        )
        assert failed == 0, f"access {failed} of {scheduled.kernel.name} is outside of its buffer"


def _garbage(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    return np.full(prod(shape) * dtype.itemsize, 255, np.uint8).view(dtype).reshape(shape)


def numpy_type(scalar: Scalar) -> np.dtype[Any]:
    """The numpy type of a kind of number."""
    made: np.dtype[Any]
    if scalar is Scalar.BF16:
        made = np.dtype(ml_dtypes.bfloat16)
    elif scalar is Scalar.BOOL:
        made = np.dtype(bool)
    else:
        made = np.dtype(f"{scalar.value[0]}{scalar.nbytes}")
    return made
