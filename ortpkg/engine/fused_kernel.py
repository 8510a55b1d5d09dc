"""Fused nodes at run time: each calls the compute function of the partition that it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ortpkg.engine.foreign_results import ForeignResults, apart
from ortpkg.engine.output_checks import Fits, is_value, shown_type, shown_value, value_check
from ortpkg.engine.pending import Pending, PendingValue, begun
from ortpkg.ep_context.context_node import is_ep_context
from ortpkg.errors import EpContextError, InvalidGraphError, quoted
from ortpkg.graph.graph import Graph, Node
from ortpkg.isolation.run_watch import run_watched
from ortpkg.kernels.kernel_registry import KernelDef
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Value
from ortpkg.providers.execution_provider import NodeComputeInfo

#: A union, made at each run, would take longer than to ask for it.
_LISTS = (list, tuple)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedKernel:
    """A compiled partition: its compute function, and the body that this computes, to look at.

    Attributes:
        is_foreign: whether a plug-in computes it, so that what it returns is checked against all
            that the body says; of what our own providers return, types are.
    """

    provider: str
    compute_info: NodeComputeInfo
    body: Graph
    is_foreign: bool = True


def fused_kernel_def(node: Node, kernel: FusedKernel) -> KernelDef:
    """The kernel definition of a fused node: its provider's memory, nothing in place."""

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
    """Call a partition's compute function with its node's state, and check what it returns.

    That is held against the partition's body at every run: kinds and element types always; ranks
    and known sizes of a plug-in, and of what comes out of a context, since that the model says of
    it what its compiler knew is nobody's promise. Our own providers may give another shape than a
    model declares and inference cannot know, as kernels may.

    Args:
        kernel: the partition.
        state: what its ``create_state`` returned.
        is_strict: whether ranks and sizes of what any provider returns, and of what goes in, are
            checked too (strict invocation).
    """
    body = kernel.body
    context_node = _context_node(body)
    with_shape = is_strict or kernel.is_foreign or context_node is not None
    checks = [
        value_check(body.type_of(name), with_shape=with_shape) or is_value for name in body.outputs
    ]
    foreign = ForeignResults(kernel.provider, body.outputs) if kernel.is_foreign else None

    called = kernel.compute_info.compute

    def compute(context: OpKernelContext, *inputs: Value) -> Value:
        if is_strict:
            _check_inputs(body, inputs)
        if foreign is None:
            results = called(state, inputs, context)
            if isinstance(results, Future):
                return Pending(results).then(checked)
            return checked(results)
        handed = getattr(context, "handed", ())
        call = partial(called, state, inputs, context)

        def taken(results: Sequence[Any]) -> Value:
            return foreign.taken(checked(results), inputs, handed)

        returned = begun(
            run_watched(_TimeOf(context), call, _cannot_be_stopped)
            if context.is_watched
            else call()
        )
        return returned.then(taken) if isinstance(returned, Pending) else taken(returned)

    def checked(returned: Sequence[Any]) -> tuple[Value, ...]:
        outputs = _as_outputs(kernel, returned, len(checks))
        for at, fits in enumerate(checks):
            value = outputs[at]
            if fits(value) and not isinstance(value, np.generic):
                continue
            made = _as_array(value)
            if made is None or not fits(made):
                raise _another_output(kernel, context_node, body.outputs[at], value)
            outputs = (*outputs[:at], made, *outputs[at + 1 :])
        return outputs

    return compute


class _TimeOf:
    """The time limit of a run, and its caller's wish to end it.

    Memory is counted where the engine hands it out.
    """

    is_memory_limited = False

    def __init__(self, context: OpKernelContext) -> None:
        self.check_cancelled = context.check_cancelled

    def check_allocation(self, nbytes: int) -> None: ...


def _cannot_be_stopped() -> None:
    """A plug-in ends when it wants to.

    What the program does then is its own affair (``run_watch.last_resort``).
    """


def checked_kernel(compute: Compute, graph: Graph, node: Node, provider: str) -> Compute:
    """The compute function of a plug-in's kernel.

    What it returns is held against the graph, as a partition's is.
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
                made = _as_array(value)
                if made is None or not fits(made):
                    raise TypeError(_told(provider, graph, name, value))
        return apart(returned) if isinstance(returned, tuple) and len(returned) > 1 else returned

    return checked


def _as_outputs(kernel: FusedKernel, returned: Any, expected: int) -> tuple[Value, ...]:
    """What ``compute`` returned, one value for each of the expected outputs.

    TypeError or ValueError where it is something else.
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
    """A scalar of numpy's as the tensor of rank 0 that it stands for; None for anything else."""
    return np.asarray(value) if isinstance(value, np.generic) else None


def _context_node(body: Graph) -> Node | None:
    """The EPContext node that is the partition by itself."""
    first = next(iter(body.nodes), None)
    return first if len(body) == 1 and first is not None and is_ep_context(first) else None


def _another_output(
    kernel: FusedKernel, context_node: Node | None, name: str, value: Value
) -> Exception:
    if context_node is None:
        return TypeError(_told(kernel.provider, kernel.body, name, value))
    return EpContextError(
        f"the context of EPContext node {quoted(context_node.name)} gives output {quoted(name)} as"
        f" {shown_value(value)}, its node declares {shown_type(kernel.body.type_of(name))}; the"
        " model was changed, or the context is another one's: compile it anew",
        ep_name=kernel.provider,
        partition_name=context_node.name,
    )


def _told(provider: str, graph: Graph, name: str, value: Value) -> str:
    return (
        f"it gets from {provider} {quoted(name)} as {shown_value(value)}, declared is"
        f" {shown_type(graph.type_of(name))}"
    )


def _check_inputs(body: Graph, values: Sequence[Value]) -> None:
    """Raise TypeError where what goes into a partition is not what its body declares."""
    for name, value in zip(body.inputs, values, strict=True):
        fits = value_check(body.type_of(name), with_shape=True)
        if fits is None or value is None or isinstance(value, PendingValue):
            continue  # one that is under way comes from a node that was checked itself
        if not fits(value):
            declared = shown_type(body.type_of(name))
            raise TypeError(
                f"the fused node takes {quoted(name)} as {shown_value(value)}, declared is"
                f" {declared}"
            )
