"""What a kernel is: made once per node at initialization, then called by the executor, stateless.

A *kernel factory* gets an :class:`OpKernelInfo` (the node's attributes, constant inputs, known
types) and returns a *compute function*. Everything that can be done once (reading attributes,
laying out constant weights) is done in the factory; the compute function only computes, keeps no
state between calls, and may run on many threads at once. This is ONNX Runtime's OpKernel, with
``Compute() const``, as a closure::

    @kernel("Relu", since=(6, 13, 14), types={"T": REAL_NUMBERS}, in_place=((0, 0),))
    def relu(info: OpKernelInfo) -> Compute:
        def compute(context: OpKernelContext, x: Tensor) -> Tensor:
            return np.maximum(x, 0, out=context.output(0, x.shape, x.dtype))

        return compute

A compute function takes one positional argument per declared input (None for one left out) and
returns the value of its single output or a tuple with one item per output. An output is either the
buffer got from ``context.output`` (then it lies in planned memory) or any new array (plain
allocation), or a view of an input where the kernel says ``alias``. It never writes to an input,
unless ``context.output`` handed out that input's buffer (``in_place``). Every tensor is an array,
never a numpy scalar. Shapes that do not fit raise ValueError with a sentence; the executor adds the
node.

The executor runs compute functions under ``np.errstate(all="ignore")``: division by zero, overflow
and invalid operations give what IEEE 754 says, in silence. Kernels do not set it again.
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
    """One run of one node, seen from the kernel."""

    def output(self, index: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
        """A C-contiguous array of garbage for output ``index``, in planned memory if there is any.

        Raises LimitExceededError before allocating anything where the run's memory limit would be
        passed, so a kernel whose output size comes from data (ConstantOfShape, Expand, Tile, Range,
        Pad, Resize, OneHot, ...) must ask here, or call :meth:`check_allocation`, before it
        computes.
        """
        ...

    def device_target(self, index: int) -> object:
        """Return where output ``index`` is to stay in the memory of the node's provider.

        None: it is to be an array. A DeviceTensor: the caller's own, to be written into. Anything
        else: a new DeviceTensor.
        """
        ...

    def check_allocation(self, nbytes: int) -> None:
        """Raises LimitExceededError where ``nbytes`` more would pass the run's memory limit."""
        ...

    @property
    def is_watched(self) -> bool:
        """Whether the run has a time limit or can be cancelled.

        If it has neither, :meth:`check_cancelled` never raises.
        """
        ...

    @property
    def is_memory_limited(self) -> bool:
        """Whether its caller has limited the run's memory."""
        ...

    def check_cancelled(self) -> None:
        """Raises CancelledError or LimitExceededError (time) where the run should end.

        Long loops call it.

        Code that has no context calls :func:`ortpkg.kernels.polling.poll_run`.
        """
        ...

    def run_subgraph(self, attribute: str, feeds: list[Value]) -> list[Value]:
        """Runs the sub-graph in ``attribute`` on ``feeds`` (its inputs, in order).

        Outer values are captured.

        What it returns is the kernel's own: it shares memory with nothing but, where the body
        passes a value through, the feeds.
        """
        ...


Compute = Callable[..., Value]


class OpKernelInfo(Protocol):
    """One node, seen from the kernel factory at initialization."""

    @property
    def node(self) -> Node:
        """The node as it stands in the graph."""
        ...

    @property
    def opset(self) -> int:
        """The version of the node's domain that the model imports."""
        ...

    def attribute(self, name: str, default: Any = None) -> Any:
        """The attribute's value: int, float, str, tuple of these, or a numpy array for a tensor."""
        ...

    def constant_input(self, slot: int) -> Tensor | None:
        """The value of an input that is constant, else None.

        Read-only; lay it out anew rather than change it.
        """
        ...

    def prepacked(self, name: str, make: Callable[[], Tensor]) -> Tensor:
        """A constant as the kernel needs it laid out: ``make()``, or what was kept of that.

        ``name`` is unique in the node. Read-only, and a function of the node's attributes, types
        and constants alone.
        """
        ...

    def input_type(self, slot: int) -> ValueType | None:
        """What is known of an input before a run; None where it is absent or nothing is."""
        ...

    def output_type(self, slot: int) -> ValueType | None:
        """What is known of an output before a run; None where it is absent or nothing is."""
        ...


KernelFactory = Callable[[OpKernelInfo], Compute]
