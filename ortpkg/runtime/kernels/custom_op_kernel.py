"""Kernels of custom operators: inputs are guarded against changes, outputs are checked."""

from __future__ import annotations

from collections.abc import Sequence
from types import GenericAlias
from typing import Any

import numpy as np

from ortpkg.foundations.errors import quoted
from ortpkg.graph.custom_op import CustomOp
from ortpkg.graph.custom_op_registry import find_custom_op
from ortpkg.graph.graph import Node
from ortpkg.graph.types import TensorType, ValueType, numpy_dtype
from ortpkg.runtime.kernels.kernel_registry import KernelDef
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Value
from ortpkg.runtime.kernels.ownership import owned


def find_custom_kernel(node: Node) -> KernelDef | None:
    """Return the kernel of a registered operator; None if the node's operator is not custom."""
    operator = find_custom_op(node.domain, node.op_type, node.since_version)
    if operator is None:
        return None
    return KernelDef(
        op_type=node.op_type,
        domain=node.domain,
        since=(node.since_version,),
        factory=lambda info: _make_kernel(operator, info),
        uses_output_buffer=False,
    )


def _make_kernel(operator: CustomOp, info: OpKernelInfo) -> Compute:
    attributes = {
        name: info.attribute(name, None if isinstance(default, type | GenericAlias) else default)
        for name, default in operator.attributes.items()
    }
    attributes = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in attributes.items()
    }
    count = len(info.node.outputs)
    expected = [info.output_type(slot) for slot in range(count)]
    # A kernel has one positional argument for each input that may be left out, too.
    most = (
        len(operator.inputs)
        if not any(text.endswith("*") for text in operator.inputs.values())
        else 0
    )

    def compute(context: OpKernelContext, *inputs: Value) -> Value:
        context.check_cancelled()
        arguments = [_guarded(value) for value in inputs]
        arguments += [None] * (most - len(arguments))
        made = operator.compute(*arguments, **attributes)
        values = made if isinstance(made, tuple) else (made,)
        if len(values) < count:
            raise ValueError(f"the kernel returned {len(values)} outputs; the node has {count}")
        checked = [
            _checked(value, output_type, slot)
            for slot, (value, output_type) in enumerate(zip(values, expected, strict=False))
        ]
        outputs = owned(checked, inputs)
        return outputs[0] if count == 1 else tuple(outputs)

    return compute


def _guarded(value: Value) -> Value:
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view


def _checked(value: Value, expected: ValueType | None, slot: int) -> Value:
    """Return an output as the engine needs it.

    Raises:
        ValueError: its shape is not that of the definition.
        TypeError: its type is not that of the definition.
    """
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(expected, TensorType):
        return value
    if not isinstance(value, np.ndarray):
        raise TypeError(
            f"output {slot} is a {type(value).__name__}; the definition says {expected}"
        )
    if value.dtype.kind in "US":
        value = value.astype(object)
    if value.dtype != numpy_dtype(expected.element_type):
        raise ValueError(
            f"output {slot} is of {quoted(value.dtype)}; the definition says {expected}"
        )
    if expected.shape is not None and not _fits(value.shape, expected.shape):
        raise ValueError(
            f"output {slot} has the shape {value.shape}; {expected.shape} was inferred"
        )
    return np.ascontiguousarray(value) if value.ndim else value


def _fits(shape: Sequence[int], expected: Sequence[Any]) -> bool:
    return len(shape) == len(expected) and all(
        not isinstance(dimension, int) or dimension == size
        for size, dimension in zip(shape, expected, strict=True)
    )
