"""Control flow operators If, Loop and Scan, which run a sub-graph.

The sub-graph runs through ``context.run_subgraph``; the caller owns what that returns, except that
it may share memory with the feeds (a value passed through). Every iteration checks whether the run
was cancelled, and collected outputs count against the run's memory limit before they grow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortpkg.graph.graph import Graph
from ortpkg.graph.types import TensorType, numpy_dtype
from ortpkg.runtime.kernels.axes import normalized_axis
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor, Value
from ortpkg.runtime.kernels.ownership import owned

_VERSIONS_SINCE_11 = (11, 13, 16, 19, 21, 23, 24, 25)


def _truth(condition: Value, operator: str) -> bool:
    """Return a condition as a bool. Raises ValueError if it is not one element."""
    if not isinstance(condition, np.ndarray) or condition.size != 1:
        shape = condition.shape if isinstance(condition, np.ndarray) else "none"
        raise ValueError(
            f"the condition of {operator} has one element, but this one has shape {shape}"
        )
    return bool(condition.reshape(()))


def _declared(values: Sequence[Value], info: OpKernelInfo) -> Value:
    """Return as many of ``values`` as the node declares outputs: one alone, or a tuple."""
    count = len(info.node.outputs)
    if len(values) < count:
        raise ValueError(
            f"the sub-graph gives {len(values)} outputs where the node declares {count}"
        )
    return values[0] if count == 1 else tuple(values[:count])


def _declared_element(body: Graph, value: str) -> Tensor:
    """Return a zero element for a scan output for which no iteration made an element.

    Dimensions that the body does not fix are 0.
    """
    value_type = body.type_of(value)
    if not isinstance(value_type, TensorType):
        raise TypeError("a scan output of no iterations needs a declared tensor type in the body")
    sizes = tuple(
        dimension if isinstance(dimension, int) else 0 for dimension in value_type.shape or ()
    )
    # A view of one element: the declared sizes are the model's and may be huge.
    return np.broadcast_to(np.zeros((), dtype=numpy_dtype(value_type.element_type)), sizes)


def _empty_scan_output(body: Graph, value: str, axis: int = 0) -> Tensor:
    """Return the scan output of a loop with zero iterations."""
    element = _declared_element(body, value)
    axis = normalized_axis(axis, element.ndim + 1)
    return np.empty((*element.shape[:axis], 0, *element.shape[axis:]), dtype=element.dtype)


# --- If -------------------------------------------------------------------------------------------


@kernel("If", since=(1, *_VERSIONS_SINCE_11), uses_output_buffer=False)
def if_(info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, condition: Tensor) -> Value:
        branch = "then_branch" if _truth(condition, "If") else "else_branch"
        return _declared(owned(context.run_subgraph(branch, []), [condition]), info)

    return compute


# --- Loop -----------------------------------------------------------------------------------------


@kernel("Loop", since=(1, *_VERSIONS_SINCE_11), uses_output_buffer=False)
def loop(info: OpKernelInfo) -> Compute:
    """Run the body while the trip count and the condition allow.

    Either may be left out (Loop, operating modes). Without the condition input, the condition that
    the body computes is ignored, as the specification says.
    """
    body = info.node.subgraphs["body"]
    counter_shape = _counter_shape(body)
    state_count = len(info.node.inputs) - 2
    scan_names = body.outputs[1 + state_count :]

    def compute(
        context: OpKernelContext, trips: Tensor | None, condition: Tensor | None, *initial: Value
    ) -> Value:
        limit = None if trips is None else int(trips.reshape(()))
        going = condition is None or _truth(condition, "Loop")
        states: list[Value] = list(initial)
        collected = _Collected(len(scan_names))
        iteration = 0
        while going and (limit is None or iteration < limit):
            context.check_cancelled()
            counter = np.full(counter_shape, iteration, dtype=np.int64)
            results = context.run_subgraph("body", [counter, np.array(going), *states])
            going = condition is None or _truth(results[0], "Loop")
            states = results[1 : 1 + state_count]
            collected.append(results[1 + state_count :], context)
            iteration += 1
        scans = [
            collected.stacked(index, context, state_count + index)
            if iteration
            else _empty_scan_output(body, name)
            for index, name in enumerate(scan_names)
        ]
        return _declared([*owned(states, initial), *scans], info)

    return compute


def _counter_shape(body: Graph) -> tuple[int, ...]:
    """Return the iteration number's shape: a scalar, or as in some exports one dimension of 1."""
    declared = body.type_of(body.inputs[0]) if body.inputs else None
    has_dimension = (
        isinstance(declared, TensorType) and declared.shape is not None and len(declared.shape) == 1
    )
    return (1,) if has_dimension else ()


class _Collected:
    """Scan outputs of one run of a Loop, whose number of iterations is unknown until its end."""

    def __init__(self, count: int) -> None:
        self._elements: list[list[Tensor]] = [[] for _ in range(count)]
        self._nbytes = 0

    def append(self, elements: Sequence[Tensor], context: OpKernelContext) -> None:
        """Add one iteration's elements. Raises LimitExceededError if all are too large by now."""
        for collected, element in zip(self._elements, elements, strict=True):
            self._nbytes += element.nbytes
            collected.append(element)
        context.check_allocation(self._nbytes)

    def elements(self, index: int) -> list[Tensor]:
        """Return the elements collected for one scan output, in order."""
        return self._elements[index]

    def stacked(self, index: int, context: OpKernelContext, output_index: int) -> Tensor:
        """Return a scan output: its elements (at least one), all of one shape, stacked."""
        elements = self._elements[index]
        first = elements[0]
        output = context.output(output_index, (len(elements), *first.shape), first.dtype)
        for position, element in enumerate(elements):
            _check_same_shape(element, first)
            output[position] = element
        return output


def _check_same_shape(element: Tensor, first: Tensor) -> None:
    if element.shape != first.shape or element.dtype != first.dtype:
        raise ValueError(
            f"a scan output has shape {first.shape} and type {first.dtype} in the first iteration, "
            f"but {element.shape} and {element.dtype} in a later one"
        )


# --- Scan -----------------------------------------------------------------------------------------


@kernel("Scan", since=(9, *_VERSIONS_SINCE_11), uses_output_buffer=True)
def scan(info: OpKernelInfo) -> Compute:
    """Run the body for each slice of the scan inputs, each along its axis and direction."""
    body = info.node.subgraphs["body"]
    scan_count = int(info.attribute("num_scan_inputs"))
    state_count = len(info.node.inputs) - scan_count
    scan_names = body.outputs[state_count:]
    input_axes = info.attribute("scan_input_axes") or (0,) * scan_count
    input_directions = info.attribute("scan_input_directions") or (0,) * scan_count
    output_axes = info.attribute("scan_output_axes") or (0,) * len(scan_names)
    output_directions = info.attribute("scan_output_directions") or (0,) * len(scan_names)

    def compute(context: OpKernelContext, *inputs: Tensor) -> Value:
        states: list[Value] = list(inputs[:state_count])
        scanned = [
            _scan_order(x, axis, direction)
            for x, axis, direction in zip(
                inputs[state_count:], input_axes, input_directions, strict=True
            )
        ]
        length = _common_length(scanned)
        outputs: list[Tensor] = []
        views: list[Tensor] = []
        for step in range(length):
            context.check_cancelled()
            results = context.run_subgraph(
                "body", [*states, *(np.asarray(x[step, ...], order="C") for x in scanned)]
            )
            states, elements = results[:state_count], results[state_count:]
            if step == 0:
                for index, (element, axis) in enumerate(zip(elements, output_axes, strict=True)):
                    axis = normalized_axis(axis, element.ndim + 1)
                    shape = (*element.shape[:axis], length, *element.shape[axis:])
                    outputs.append(context.output(state_count + index, shape, element.dtype))
                    views.append(_scan_order(outputs[-1], axis, output_directions[index]))
            for view, element in zip(views, elements, strict=True):
                _check_same_shape(element, view[0])
                view[step] = element
        if length == 0:
            outputs = [
                _empty_scan_output(body, *named)
                for named in zip(scan_names, output_axes, strict=True)
            ]
        return _declared([*owned(states, inputs), *outputs], info)

    return compute


def _scan_order(x: Tensor, axis: int, direction: int) -> Tensor:
    """A view of ``x`` whose first axis runs over the scan's steps."""
    moved = np.moveaxis(x, normalized_axis(axis, x.ndim), 0)
    return moved[::-1] if direction else moved


def _common_length(scanned: Sequence[Tensor]) -> int:
    lengths = sorted({x.shape[0] for x in scanned})
    if len(lengths) != 1:
        raise ValueError(
            f"scan inputs have one length along their scan axes, but these have {lengths}"
        )
    return int(lengths[0])


@kernel("Scan", since=(8,), uses_output_buffer=False)
def scan_8(info: OpKernelInfo) -> Compute:
    """Scan of opset 8: axis 0 is the batch, axis 1 the sequence, lengths are optional."""
    body = info.node.subgraphs["body"]
    scan_count = int(info.attribute("num_scan_inputs"))
    state_count = len(info.node.inputs) - 1 - scan_count
    scan_names = body.outputs[state_count:]
    directions = info.attribute("directions") or (0,) * scan_count

    def compute(context: OpKernelContext, lengths: Tensor | None, *inputs: Tensor) -> Value:
        batch, longest = inputs[state_count].shape[:2]
        rows = []
        for row in range(batch):
            length = longest if lengths is None else int(lengths[row])
            if not 0 <= length <= longest:
                raise ValueError(f"sequence_lens has {length}, which is not in [0, {longest}]")
            rows.append(run_row(context, [x[row] for x in inputs], length, longest))
        values = [np.stack(column) for column in zip(*rows, strict=True)]
        return _declared(values, info)

    def run_row(
        context: OpKernelContext, inputs: list[Tensor], length: int, longest: int
    ) -> list[Tensor]:
        states: list[Value] = [x.copy() for x in inputs[:state_count]]
        scanned = [
            x[:length][::-1] if direction else x[:length]
            for x, direction in zip(inputs[state_count:], directions, strict=True)
        ]
        collected = _Collected(len(scan_names))
        for step in range(length):
            context.check_cancelled()
            results = context.run_subgraph(
                "body", [*states, *(np.asarray(x[step, ...], order="C") for x in scanned)]
            )
            states = results[:state_count]
            collected.append(results[state_count:], context)
        padded = []
        for index, name in enumerate(scan_names):
            elements = collected.elements(index)
            element = elements[0] if elements else _declared_element(body, name)
            context.check_allocation(element.nbytes * longest)
            output = np.zeros((longest, *element.shape), dtype=element.dtype)
            for step, element in enumerate(elements):
                output[step] = element
            padded.append(output)
        return [*states, *padded]

    return compute
