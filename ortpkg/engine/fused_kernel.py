"""Fused nodes at run time: each calls the compute function of the partition that it stands for (P08, P09, D07)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortpkg.errors import InvalidGraphError, quoted
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import ElementType, TensorType, numpy_dtype
from ortpkg.kernels.kernel_registry import KernelDef
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Value
from ortpkg.providers.execution_provider import NodeComputeInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedKernel:
    """A compiled partition: how it computes, and the body that it computes (for checks and inspection)."""

    provider: str
    compute_info: NodeComputeInfo
    body: Graph


def fused_kernel_def(node: Node) -> KernelDef:
    """The kernel definition of a fused node: its provider's memory, nothing in place."""

    def factory(_info: OpKernelInfo) -> Compute:
        raise InvalidGraphError(f"{node} is a fused node: its compute function comes from its provider")

    return KernelDef(op_type=node.op_type, domain=node.domain, since=(1,), factory=factory, uses_output_buffer=False)


def fused_compute(kernel: FusedKernel, state: Any, *, is_strict: bool = False) -> Compute:
    """Calls a partition's compute function with the state that was made for its node.

    Args:
        kernel: the partition.
        state: what its ``create_state`` returned.
        is_strict: whether types and shapes of what goes in and comes out are checked against the partition's body;
            without it the provider is trusted (strict and non-strict invocation, D07).
    """
    body = kernel.body

    def compute(context: OpKernelContext, *inputs: Value) -> Value:
        if is_strict:
            _check(body, body.inputs, inputs, "takes")
        outputs = tuple(kernel.compute_info.compute(state, inputs, context))
        if len(outputs) != len(body.outputs):
            raise ValueError(
                f"{kernel.provider} returned {len(outputs)} outputs where the node has {len(body.outputs)}"
            )
        if is_strict:
            _check(body, body.outputs, outputs, f"gets from {kernel.provider}")
        return outputs

    return compute


def _check(body: Graph, names: Sequence[str], values: Sequence[Value], verb: str) -> None:
    """Raises TypeError where a tensor is not what ``body`` declares."""
    for name, value in zip(names, values, strict=True):
        declared = body.type_of(name)
        if not isinstance(declared, TensorType) or declared.element_type is ElementType.UNDEFINED or value is None:
            continue
        if not isinstance(value, np.ndarray) or not _fits(declared, value):
            made = f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
            shape = "" if declared.shape is None else str(list(declared.shape))
            raise TypeError(f"the fused node {verb} {quoted(name)} as {made}, declared is {declared}{shape}")


def _fits(declared: TensorType, array: np.ndarray[Any, Any]) -> bool:
    if array.dtype != numpy_dtype(declared.element_type):
        return False
    if declared.shape is None:
        return True
    if len(declared.shape) != array.ndim:
        return False
    pairs = zip(declared.shape, array.shape, strict=True)
    return all(not isinstance(dimension, int) or dimension == size for dimension, size in pairs)
