"""Kernels of fused nodes: each calls the compute function of the partition behind its node."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ortpkg.foundations.errors import EpContextError, InvalidGraphError, quoted
from ortpkg.foundations.isolation.run_watch import run_watched
from ortpkg.graph.graph import Graph, Node
from ortpkg.runtime.engine.foreign_results import ForeignResults, apart
from ortpkg.runtime.engine.output_checks import Fits, is_value, shown_type, shown_value, value_check
from ortpkg.runtime.engine.pending import Pending, PendingValue, begun
from ortpkg.runtime.ep_context.context_node import is_ep_context
from ortpkg.runtime.kernels.kernel_registry import KernelDef
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Value
from ortpkg.runtime.providers.execution_provider import NodeComputeInfo

#: A tuple, since a union in isinstance would be created at each run.
_LISTS = (list, tuple)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedKernel:
    """A compiled partition: its compute function, and the sub-graph (body) that it computes.

    Attributes:
        provider: name of the execution provider.
        compute_info: the compute function with those that make and release its state.
        body: the nodes that were fused.
        is_foreign: True if a plug-in computes it: its results are checked against the body in all
            respects; those of our own providers only by type.
    """

    provider: str
    compute_info: NodeComputeInfo
    body: Graph
    is_foreign: bool = True


def fused_kernel_def(node: Node, kernel: FusedKernel) -> KernelDef:
    """Return the kernel definition of a fused node: its provider's memory, nothing in place."""

    def factory(_info: OpKernelInfo) -> Compute:
        raise InvalidGraphError(
            f"{node} is a fused node: its compute function comes from its provider"
        )

    return KernelDef(
        op_type=node.op_type,
        domain=node.domain,
        since=(1,),
        factory=factory,
        uses_output_buffer=False,
        is_async=kernel.compute_info.is_async,
        is_strict=kernel.compute_info.is_strict,
        device_slots=kernel.compute_info.device_slots,
    )


def fused_compute(kernel: FusedKernel, state: Any, *, is_strict: bool = False) -> Compute:
    """Return a function that calls a partition's compute function and checks its results.

    They are compared with the partition's body at every run: kinds and element types always; ranks
    and known sizes for a plug-in, and for a context, since nothing ensures that the model declares
    what its compiler knew. Like kernels, our own providers may return another shape than a model
    declares if inference cannot know it.

    Args:
        kernel: the partition.
        state: the result of its ``create_state``.
        is_strict: True to check ranks and sizes of all providers' inputs and results (strict
            invocation).
    """
    body = kernel.body
    context_node = _context_node(body)
    with_shape = is_strict or kernel.is_foreign or context_node is not None
    checks = [
        value_check(body.type_of(name), with_shape=with_shape) or is_value for name in body.outputs
    ]
    foreign = ForeignResults(kernel.provider, body.outputs) if kernel.is_foreign else None

    compute_partition = kernel.compute_info.compute

    def compute(context: OpKernelContext, *inputs: Value) -> Value:
        if is_strict:
            _check_inputs(body, inputs)
        if foreign is None:
            results = compute_partition(state, inputs, context)
            if isinstance(results, Future):
                return Pending(results).then(checked)
            return checked(results)
        handed = getattr(context, "handed", ())
        call = partial(compute_partition, state, inputs, context)

        def safe_results(results: Sequence[Any]) -> Value:
            return foreign.safe_outputs(checked(results), inputs, handed)

        returned = begun(
            run_watched(_TimeOf(context), call, _cannot_be_stopped)
            if context.is_watched
            else call()
        )
        return (
            returned.then(safe_results) if isinstance(returned, Pending) else safe_results(returned)
        )

    def checked(returned: Sequence[Any]) -> tuple[Value, ...]:
        outputs = _as_outputs(kernel, returned, len(checks))
        for position, fits in enumerate(checks):
            value = outputs[position]
            if fits(value) and not isinstance(value, np.generic):
                continue
            array = _as_array(value)
            if array is None or not fits(array):
                raise _another_output(kernel, context_node, body.outputs[position], value)
            outputs = (*outputs[:position], array, *outputs[position + 1 :])
        return outputs

    return compute


class _TimeOf:
    """Time limit and cancellation of a run; memory is counted where the engine allocates it."""

    is_memory_limited = False

    def __init__(self, context: OpKernelContext) -> None:
        self.check_cancelled = context.check_cancelled

    def check_allocation(self, nbytes: int) -> None: ...


def _cannot_be_stopped() -> None:
    """Do nothing: a plug-in ends when it wants to (see ``run_watch.last_resort``)."""


def checked_kernel(compute: Compute, graph: Graph, node: Node, provider: str) -> Compute:
    """Return the compute function of a plug-in's kernel, which checks its results.

    The results are compared with the graph, as those of a partition are.
    """
    checks: list[tuple[str, Fits]] = [
        (name, (value_check(graph.type_of(name), with_shape=True) if name else None) or is_value)
        for name in node.outputs
    ]

    def checked(context: OpKernelContext, *inputs: Value) -> Value:
        returned = begun(compute(context, *inputs))
        return returned.then(held) if isinstance(returned, Pending) else held(returned)

    def held(returned: Value) -> Value:
        values = returned if isinstance(returned, tuple) else (returned,)
        for (name, fits), value in zip(checks, values, strict=False):
            if not fits(value):
                array = _as_array(value)
                if array is None or not fits(array):
                    raise TypeError(_mismatch_text(provider, graph, name, value))
        return apart(returned) if isinstance(returned, tuple) and len(returned) > 1 else returned

    return checked


def _as_outputs(kernel: FusedKernel, returned: Any, expected: int) -> tuple[Value, ...]:
    """Return the result of ``compute`` as one value per expected output.

    Raises:
        TypeError, ValueError: it is not a list of so many values.
    """
    if not isinstance(returned, _LISTS):
        raise TypeError(
            f"{kernel.provider} returned {shown_value(returned)} where a list of its {expected}"
            " outputs belongs"
        )
    if len(returned) != expected:
        raise ValueError(
            f"{kernel.provider} returned {len(returned)} outputs where the node has {expected}"
        )
    return tuple(returned)


def _as_array(value: Value) -> np.ndarray[Any, Any] | None:
    """Return a numpy scalar as a tensor of rank 0; None for anything else."""
    return np.asarray(value) if isinstance(value, np.generic) else None


def _context_node(body: Graph) -> Node | None:
    """Return the EPContext node if the partition consists of only that."""
    first = next(iter(body.nodes), None)
    return first if len(body) == 1 and first is not None and is_ep_context(first) else None


def _another_output(
    kernel: FusedKernel, context_node: Node | None, name: str, value: Value
) -> Exception:
    if context_node is None:
        return TypeError(_mismatch_text(kernel.provider, kernel.body, name, value))
    return EpContextError(
        f"the context of EPContext node {quoted(context_node.name)} gives output {quoted(name)} as"
        f" {shown_value(value)}, its node declares {shown_type(kernel.body.type_of(name))}; the"
        " model was changed, or the context is another one's: compile it anew",
        ep_name=kernel.provider,
        partition_name=context_node.name,
    )


def _mismatch_text(provider: str, graph: Graph, name: str, value: Value) -> str:
    return (
        f"it gets from {provider} {quoted(name)} as {shown_value(value)}, declared is"
        f" {shown_type(graph.type_of(name))}"
    )


def _check_inputs(body: Graph, values: Sequence[Value]) -> None:
    """Raise TypeError if an input of a partition does not match its declaration in the body."""
    for name, value in zip(body.inputs, values, strict=True):
        fits = value_check(body.type_of(name), with_shape=True)
        if fits is None or value is None or isinstance(value, PendingValue):
            continue  # a pending value comes from a node whose outputs are checked
        if not fits(value):
            declared = shown_type(body.type_of(name))
            raise TypeError(
                f"the fused node takes {quoted(name)} as {shown_value(value)}, declared is"
                f" {declared}"
            )
