"""Costs of running a node on a provider and of transfers: stated, measured, or assumed.

For each provider, the first available source is used: a time per operation of the node's operator;
one for all operators; the measured time of the whole model on that provider, divided among the
nodes by their work; the provider's own estimate; an assumption that is the same for all. Operations
are counted from shapes, with symbolic dimensions as :data:`NOMINAL_DIMENSION`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.topology import all_graphs
from ortpkg.graph.types import ElementType, TensorType, stored_nbytes
from ortpkg.runtime.providers.execution_provider import ExecutionProvider
from ortpkg.runtime.providers.node_work import assumed_element_count, node_work, operation_count

#: Costs of a provider about which nothing is known.
ASSUMED_SECONDS_PER_OPERATION = 2e-10
ASSUMED_SECONDS_PER_NODE = 5e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCosts:
    """Known costs of one provider; None for unknown ones.

    Attributes:
        operators: operator → seconds per operation.
        seconds_per_operation: seconds per operation of all other operators.
        seconds_per_node: seconds to call a node, whatever it computes.
        seconds_per_crossing: seconds for each value that it takes from another provider, and for
            each that others take from it.
        model_s: measured seconds of a run of the whole model on it.
        memory_nbytes: most bytes of constants that it can hold.
    """

    operators: Mapping[str, float] = field(default_factory=dict)
    seconds_per_operation: float | None = None
    seconds_per_node: float | None = None
    seconds_per_crossing: float | None = None
    model_s: float | None = None
    memory_nbytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferCosts:
    """Costs of a copy between the CPU's memory and another, per copy and per byte, in seconds."""

    seconds_per_copy: float
    seconds_per_byte: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCosts:
    """Costs that the caller states, or has measured.

    Attributes:
        providers: costs by name of the provider.
        transfers: costs by name of the memory; the allocator estimates those that are missing.
    """

    providers: Mapping[str, ProviderCosts] = field(default_factory=dict)
    transfers: Mapping[str, TransferCosts] = field(default_factory=dict)


class NodeCosts:
    """Costs of each node of a model on each provider."""

    def __init__(self, model: Graph, costs: PartitionCosts) -> None:
        """Create the costs; ``model`` is the main graph, to which measured times refer."""
        self._costs = costs
        self._work = sum(
            node_work(graph, node) for graph in all_graphs(model) for node in graph.nodes
        )

    def source(self, nodes: Sequence[Node], provider: ExecutionProvider) -> str:
        """Return the source of costs: "stated", "measured", "its own" (estimates), or "assumed"."""
        costs = self._costs.providers.get(provider.name, ProviderCosts())
        if costs.operators or costs.seconds_per_operation is not None:
            return "stated"
        if costs.model_s is not None:
            return "measured"
        return (
            "its own"
            if any(provider.estimate_node_s(node, 1) is not None for node in nodes)
            else "assumed"
        )

    def seconds(self, graph: Graph, node: Node, provider: ExecutionProvider) -> float:
        """Return the seconds of one node of ``graph`` in one run.

        ``graph`` may lie inside the model's.
        """
        costs = self._costs.providers.get(provider.name, ProviderCosts())
        operations = operation_count(graph, node)
        per_operation = costs.operators.get(node.op_type, costs.seconds_per_operation)
        if per_operation is None and costs.model_s is not None:
            return costs.model_s * node_work(graph, node) / self._work
        if per_operation is None:
            estimate = provider.estimate_node_s(node, operations)
            if estimate is not None:
                return estimate
            per_operation = ASSUMED_SECONDS_PER_OPERATION
        per_node = (
            ASSUMED_SECONDS_PER_NODE if costs.seconds_per_node is None else costs.seconds_per_node
        )
        return per_node + operations * per_operation


def value_nbytes(graph: Graph, value: str) -> int:
    """Return the bytes of a value, with nominal sizes for unknown dimensions."""
    value_type = graph.type_of(value)
    if not isinstance(value_type, TensorType):
        return 0
    if value_type.element_type in {ElementType.STRING, ElementType.UNDEFINED}:
        return 0
    return stored_nbytes(value_type.element_type, assumed_element_count(graph, value))
