"""Checks indices of Gather that enter a partition, for libraries that do not check them.

ONNX defines an index out of range as an error. A library may answer with zeros instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ortpkg.errors import RunError, quoted
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import TensorType
from ortpkg.kernels.op_kernel import OpKernelContext
from ortpkg.providers.execution_provider import NodeComputeInfo

#: Operators whose output holds the elements of their first input, and no others.
_KEEPS_ELEMENTS = frozenset(
    {"Cast", "Expand", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
)


class IndexGuard(NamedTuple):
    """Check of the indices of one Gather.

    Attributes:
        node: name of the node.
        indices: position of the partition's input that holds them; None for constants.
        data: position of the input that they index; None if the size is known.
        axis: axis of the data that they index.
        size: of that axis, if ``data`` is None.
        limits: lowest and highest of constant indices.
    """

    node: str
    indices: int | None
    data: int | None
    axis: int
    size: int
    limits: tuple[int, int] = (0, 0)


def index_guards(body: Graph) -> tuple[IndexGuard, ...]:
    """Return the checks for a partition: one per Gather with entering or constant indices."""
    input_positions = {name: position for position, name in enumerate(body.inputs)}
    guards = (_guard(body, node, input_positions) for node in body.nodes if _is_gather(node))
    return tuple(guard for guard in guards if guard is not None)


def guarded(info: NodeComputeInfo, guards: Sequence[IndexGuard]) -> NodeComputeInfo:
    """Return a compute info that checks the indices before each run of the partition."""
    if not guards:
        return info

    def compute(state: Any, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
        for guard in guards:
            _check(guard, inputs)
        return info.compute(state, inputs, context)

    return replace(info, compute=compute)


def _is_gather(node: Node) -> bool:
    return node.op_type == "Gather" and not node.domain


def _guard(body: Graph, node: Node, input_positions: dict[str, int]) -> IndexGuard | None:
    data, indices = node.inputs[0], _origin(body, node.inputs[1])
    limits = _limits(body, indices)
    if limits is None and indices not in input_positions:
        return None
    guard = IndexGuard(
        node=node.name,
        indices=input_positions.get(indices),
        data=None,
        axis=int(node.attribute("axis", 0)),
        size=0,
        limits=limits or (0, 0),
    )
    size = _size(body, data, guard.axis)
    if size is not None:
        return guard._replace(size=size)
    return guard._replace(data=input_positions[data]) if data in input_positions else None


def _limits(body: Graph, indices: str) -> tuple[int, int] | None:
    """Return the lowest and highest of constant indices; None if not constant, or empty."""
    constant = body.constant(indices)
    numbers = None if constant is None else constant.numpy()
    return None if numbers is None or not numbers.size else (int(numbers.min()), int(numbers.max()))


def _size(body: Graph, data: str, axis: int) -> int | None:
    data_type = body.type_of(data)
    shape = data_type.shape if isinstance(data_type, TensorType) else None
    if shape is None or not -len(shape) <= axis < len(shape):
        return None
    size = shape[axis]
    return size if isinstance(size, int) else None


def _origin(body: Graph, value: str) -> str:
    """Return the earliest value with the same elements as ``value``."""
    maker = body.producer_of(value)
    while maker is not None and maker.op_type in _KEEPS_ELEMENTS and not maker.domain:
        value = maker.inputs[0]
        maker = body.producer_of(value)
    return value


def _check(guard: IndexGuard, inputs: Sequence[Any]) -> None:
    size = guard.size if guard.data is None else inputs[guard.data].shape[guard.axis]
    lowest, highest = guard.limits
    if guard.indices is not None:
        indices = inputs[guard.indices]
        if not indices.size or indices.dtype.kind not in "iu":
            return
        lowest, highest = int(indices.min()), int(indices.max())
    if lowest < -size or highest >= size:
        wrong = lowest if lowest < -size else highest
        raise RunError(
            f"node {quoted(guard.node)} (Gather) failed: index {wrong} is out of range for an axis"
            f" of size {size}",
            node_name=guard.node,
        )
