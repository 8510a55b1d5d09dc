"""Interface of kernels: made once per node at initialization, then called by the executor.

A *kernel factory* gets an :class:`OpKernelInfo` (the node's attributes, constant inputs, known
types) and returns a *compute function*. Everything that can be done once (reading attributes,
laying out constant weights) is done in the factory; the compute function only computes, keeps no
state between calls, and may run on many threads at once. This is ONNX Runtime's OpKernel, with
``Compute() const``, as a closure::

    @kernel("Relu", since=(6, 13, 14), types={"T": REAL_NUMBERS}, in_place=((0, 0),)) def relu(info:
    OpKernelInfo) -> Compute:
        def compute(context: OpKernelContext, x: Tensor) -> Tensor:
            return np.maximum(x, 0, out=context.output(0, x.shape, x.dtype))

        return compute

A compute function takes one positional argument per declared input (None for one left out) and
returns the value of its single output or a tuple with one item per output. An output is the buffer
from ``context.output`` (then it lies in planned memory), any new array (plain allocation), or a
view of an input if the kernel declares ``alias``. It never writes to an input, unless
``context.output`` returned that input's buffer (``in_place``). Every tensor is an array, never a
numpy scalar. Shapes that do not fit raise ValueError with a sentence; the executor adds the node.

The executor runs compute functions under ``np.errstate(all="ignore")``: division by zero, overflow
and invalid operations give the results of IEEE 754 without warnings. Kernels do not set it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ortpkg.graph.graph import Node
from ortpkg.graph.types import ValueType

Tensor = npt.NDArray[Any]
#: An array, or a list (sequence), None or a value (optional), a dict (map), or a sparse tensor.
Value = Any


class OpKernelContext(Protocol):
    """One run of one node, as its kernel sees it."""

    def output(self, index: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
        """Return an uninitialized C-contiguous array for output ``index``.

        It is in planned memory if there is any. A kernel whose output size comes from data
        (ConstantOfShape, Expand, Tile, Range, Pad, Resize, OneHot, ...) must call this, or
        :meth:`check_allocation`, before it computes.

        Raises:
            LimitExceededError: the run's memory limit would be exceeded; nothing was allocated.
        """
        ...

    def device_target(self, index: int) -> object:
        """Return where output ``index`` is to stay in the memory of the node's provider.

        None: it is to be an array. A DeviceTensor: the caller's own, to be written into. Anything
        else: a new DeviceTensor.
        """
        ...

    def check_allocation(self, nbytes: int) -> None:
        """Raise LimitExceededError if ``nbytes`` more would exceed the run's memory limit."""
        ...

    @property
    def is_watched(self) -> bool:
        """True if the run has a time limit or can be cancelled.

        If it has neither, :meth:`check_cancelled` never raises.
        """
        ...

    @property
    def is_memory_limited(self) -> bool:
        """True if the caller has limited the run's memory."""
        ...

    def check_cancelled(self) -> None:
        """Raise CancelledError or LimitExceededError (time) if the run should end.

        Long loops call it. Code that has no context calls
        :func:`ortpkg.foundations.isolation.polling.poll_run`.
        """
        ...

    def run_subgraph(self, attribute: str, feeds: list[Value]) -> list[Value]:
        """Run the sub-graph in ``attribute`` on ``feeds`` (its inputs, in order).

        Outer values are captured. The kernel owns the result: it shares memory with nothing but the
        feeds, if the body passes one through.
        """
        ...


Compute = Callable[..., Value]


class OpKernelInfo(Protocol):
    """One node, as the kernel factory sees it at initialization."""

    @property
    def node(self) -> Node:
        """Node in the graph."""
        ...

    @property
    def opset(self) -> int:
        """Version of the node's domain that the model imports."""
        ...

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute: int, float, str, tuple of these, or a numpy array for a tensor."""
        ...

    def constant_input(self, slot: int) -> Tensor | None:
        """Return the value of an input that is constant, else None.

        It is read-only; copy it to change its layout.
        """
        ...

    def prepacked(self, name: str, make: Callable[[], Tensor]) -> Tensor:
        """Return a constant in the layout that the kernel needs: ``make()``, or a cached result.

        ``name`` is unique in the node. The result is read-only, and must depend on nothing but the
        node's attributes, types and constants.
        """
        ...

    def input_type(self, slot: int) -> ValueType | None:
        """Return the known type of an input before a run; None if it is absent or unknown."""
        ...

    def output_type(self, slot: int) -> ValueType | None:
        """Return the known type of an output before a run; None if it is absent or unknown."""
        ...


KernelFactory = Callable[[OpKernelInfo], Compute]
