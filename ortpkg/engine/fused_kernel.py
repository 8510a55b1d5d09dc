"""Fused nodes at run time: each calls the compute function of the partition that it stands for (P08, P09, D07)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortpkg.engine.pending import Pending, PendingValue, begun
from ortpkg.errors import EpContextError, InvalidGraphError, quoted
from ortpkg.graph.ep_context import is_ep_context
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import ElementType, TensorType, numpy_dtype
from ortpkg.kernels.device_tensor import DeviceTensor
from ortpkg.kernels.kernel_registry import KernelDef
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Value
from ortpkg.providers.execution_provider import NodeComputeInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedKernel:
    """A compiled partition: how it computes, and the body that it computes (for checks and inspection)."""

    provider: str
    compute_info: NodeComputeInfo
    body: Graph


def fused_kernel_def(node: Node, kernel: FusedKernel) -> KernelDef:
    """The kernel definition of a fused node: its provider's memory, nothing in place."""

    def factory(_info: OpKernelInfo) -> Compute:
        raise InvalidGraphError(f"{node} is a fused node: its compute function comes from its provider")

    return KernelDef(
        op_type=node.op_type,
        domain=node.domain,
        since=(1,),
        factory=factory,
        uses_output_buffer=False,
        is_async=kernel.compute_info.is_async,
        is_strict=kernel.compute_info.is_strict,
    )


def fused_compute(kernel: FusedKernel, state: Any, *, is_strict: bool = False) -> Compute:
    """Calls a partition's compute function with the state that was made for its node.

    Args:
        kernel: the partition.
        state: what its ``create_state`` returned.
        is_strict: whether types and shapes of what goes in and comes out are checked against the partition's body;
            without it the provider is trusted (strict and non-strict invocation, D07), but for what comes out of a
            context: that the model says of it what its compiler knew is nobody's promise.
    """
    body = kernel.body
    declared = _declared_by_context_node(body)

    def compute(context: OpKernelContext, *inputs: Value) -> Value:
        if is_strict:
            _check(body, body.inputs, inputs, "takes")
        returned = begun(kernel.compute_info.compute(state, inputs, context))
        return returned.then(checked) if isinstance(returned, Pending) else checked(returned)

    def checked(returned: Sequence[Any]) -> Value:
        outputs = tuple(returned)
        if len(outputs) != len(body.outputs):
            raise ValueError(
                f"{kernel.provider} returned {len(outputs)} outputs where the node has {len(body.outputs)}"
            )
        if is_strict:
            _check(body, body.outputs, outputs, f"gets from {kernel.provider}")
        for at, value_type, dtype in declared:
            value = outputs[at]
            if type(value) is np.ndarray and value.dtype is dtype and value.shape == value_type.shape:
                continue  # as nearly always, and quickly
            if not _fits(value_type, value):
                raise _another_output(kernel, body.outputs[at], value_type, value)
        return outputs

    return compute


def _declared_by_context_node(body: Graph) -> list[tuple[int, TensorType, np.dtype[Any]]]:
    """What an EPContext node that is a partition by itself declares of the body's outputs, as far as numpy has it."""
    if len(body) != 1 or not is_ep_context(next(iter(body.nodes))):
        return []
    types = ((at, body.type_of(name)) for at, name in enumerate(body.outputs))
    return [
        (at, found, dtype)
        for at, found in types
        if isinstance(found, TensorType)
        and found.element_type is not ElementType.UNDEFINED
        and (dtype := np.dtype(numpy_dtype(found.element_type))).kind in "biufc"
    ]


def _another_output(kernel: FusedKernel, name: str, declared: TensorType, value: Value) -> EpContextError:
    (node,) = kernel.body.nodes
    shape = "" if declared.shape is None else str(list(declared.shape))
    return EpContextError(
        f"the context of EPContext node {quoted(node.name)} gives output {quoted(name)} as {_shown(value)}, its node "
        f"declares {declared}{shape}; the model was changed, or the context is another one's: compile it anew",
        ep_name=kernel.provider,
        partition_name=node.name,
    )


def _shown(value: Value) -> str:
    is_tensor = isinstance(value, np.ndarray | DeviceTensor)
    return f"{value.dtype}{list(value.shape)}" if is_tensor else type(value).__name__


def _check(body: Graph, names: Sequence[str], values: Sequence[Value], verb: str) -> None:
    """Raises TypeError where a tensor is not what ``body`` declares."""
    for name, value in zip(names, values, strict=True):
        declared = body.type_of(name)
        if not isinstance(declared, TensorType) or declared.element_type is ElementType.UNDEFINED or value is None:
            continue
        if isinstance(value, PendingValue):
            continue  # of a node that was checked itself
        if not _fits(declared, value):
            shape = "" if declared.shape is None else str(list(declared.shape))
            raise TypeError(f"the fused node {verb} {quoted(name)} as {_shown(value)}, declared is {declared}{shape}")


def _fits(declared: TensorType, array: Any) -> bool:
    if not isinstance(array, np.ndarray | DeviceTensor) or array.dtype != numpy_dtype(declared.element_type):
        return False
    if declared.shape is None:
        return True
    if len(declared.shape) != array.ndim:
        return False
    pairs = zip(declared.shape, array.shape, strict=True)
    return all(not isinstance(dimension, int) or dimension == size for dimension, size in pairs)
