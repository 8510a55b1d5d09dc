"""Kernel context of one node outside of a session, to fold a constant or try a context."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ortpkg.foundations.errors import RunError
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.kernels.op_kernel import Tensor, Value


class PlainContext:
    """OpKernelContext without plans: each output is a new array."""

    def __init__(self, control: RunControl) -> None:
        self.control = control

    def output(self, index: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:  # noqa: ARG002
        self.control.charge(math.prod(shape) * np.dtype(dtype).itemsize)
        return np.empty(shape, dtype)

    def device_target(self, index: int) -> object:  # noqa: ARG002 - all outputs are arrays
        return None

    def check_allocation(self, nbytes: int) -> None:
        self.control.check_allocation(nbytes)

    @property
    def is_watched(self) -> bool:
        return self.control.is_watched

    @property
    def is_memory_limited(self) -> bool:
        return self.control.is_memory_limited

    @property
    def time_left_s(self) -> float | None:
        return self.control.time_left_s

    def check_cancelled(self) -> None:
        self.control.check()

    def run_subgraph(self, attribute: str, feeds: list[Value]) -> list[Value]:  # noqa: ARG002
        raise RunError("sub-graphs run in sessions alone")
