"""OpKernelInfo of a graph's node, and the compute function that its kernel factory makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ortpkg.foundations.errors import InvalidGraphError, ModelError, OrtpkgError, printable, quoted
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import ValueType
from ortpkg.runtime.kernels.kernel_registry import KernelDef
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelInfo, Tensor


class NodeKernelInfo:
    """OpKernelInfo over a node of a graph."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self._graph = graph
        self._node = node

    @property
    def node(self) -> Node:
        return self._node

    @property
    def opset(self) -> int:
        return self._graph.opset_imports.get(self._node.domain, self._node.since_version)

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the attribute's value, with tensors as numpy arrays."""
        attribute = self._node.attributes.get(name)
        if attribute is not None and attribute.kind == "TENSOR":
            return attribute.value.numpy()
        if attribute is not None and attribute.kind == "TENSORS":
            return tuple(tensor.numpy() for tensor in attribute.value)
        return self._node.attribute(name, default)

    def constant_input(self, slot: int) -> Tensor | None:
        if slot >= len(self._node.inputs) or not self._node.inputs[slot]:
            return None
        constant = self._graph.constant(self._node.inputs[slot])
        return None if constant is None else constant.numpy()

    def prepacked(self, name: str, make: Callable[[], Tensor]) -> Tensor:  # noqa: ARG002 - part of the interface
        """Call ``make`` without a cache: every session lays constants out anew."""
        return make()

    def input_type(self, slot: int) -> ValueType | None:
        return self._type_at(self._node.inputs, slot)

    def output_type(self, slot: int) -> ValueType | None:
        return self._type_at(self._node.outputs, slot)

    def _type_at(self, names: tuple[str, ...], slot: int) -> ValueType | None:
        return self._graph.type_of(names[slot]) if slot < len(names) and names[slot] else None


def make_compute(
    graph: Graph, node: Node, definition: KernelDef, info: OpKernelInfo | None = None
) -> Compute:
    """Make the compute function of ``node``.

    ``info`` is the kernel's view of the node, if that has more than the graph.

    Raises:
        InvalidGraphError: the node's attributes do not fit; the message names the node.
        ModelError: (FAIL) the factory's result cannot be called; the message names the node.
    """
    try:
        compute = definition.factory(info or NodeKernelInfo(graph, node))
    except OrtpkgError:
        raise
    except Exception as error:
        raise InvalidGraphError(f"{node}: {printable(error)}", node_name=node.name) from error
    if not callable(compute):
        raise ModelError(
            f"got no kernel for node {quoted(node.name)} ({node.op_type}):"
            f" {node.execution_provider or 'its factory'} made {type(compute).__name__}, which"
            " cannot be called",
            node_name=node.name,
        )
    return compute
