"""What it costs to run a node on a provider or bring a value there: stated, measured, assumed.

Of the sources for a provider the first that there is counts: a time per operation of the node's
operator; one for all operators; the measured time of the whole model on that provider, divided
among the nodes by their work; what the provider itself says; an assumption that is the same for
all. Operations are counted from shapes, symbolic dimensions as :data:`NOMINAL_DIMENSION`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.topology import all_graphs
from ortpkg.graph.types import ElementType, TensorType, stored_nbytes
from ortpkg.providers.execution_provider import ExecutionProvider
from ortpkg.providers.node_work import node_work, operation_count, value_size

#: Of a provider of which nobody says anything.
ASSUMED_SECONDS_PER_OPERATION = 2e-10
ASSUMED_SECONDS_PER_NODE = 5e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCosts:
    """What is known of one provider; None where nothing is.

    Attributes:
        operators: operator → seconds per operation.
        seconds_per_operation: of all other operators.
        seconds_per_node: of calling a node, whatever it computes.
        seconds_per_crossing: for each value that it takes from another provider, and for each that
            others take from it.
        model_s: what a run of the whole model takes on it, as measured.
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
    """A copy between the CPU's memory and another: its own time, and that of each byte."""

    seconds_per_copy: float
    seconds_per_byte: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCosts:
    """What the caller states, or had measured.

    Attributes:
        providers: by name.
        transfers: by name of the memory; for one that is not there its allocator says.
    """

    providers: Mapping[str, ProviderCosts] = field(default_factory=dict)
    transfers: Mapping[str, TransferCosts] = field(default_factory=dict)


class NodeCosts:
    """What each node of a model costs on each provider."""

    def __init__(self, model: Graph, costs: PartitionCosts) -> None:
        """``model``: the main graph, of which measured times are."""
        self._costs = costs
        self._work = sum(
            node_work(graph, node) for graph in all_graphs(model) for node in graph.nodes
        )

    def source(self, nodes: Sequence[Node], provider: ExecutionProvider) -> str:
        """Where costs are from: "stated", "measured", "its own" (estimates), or "assumed"."""
        stated = self._costs.providers.get(provider.name, ProviderCosts())
        if stated.operators or stated.seconds_per_operation is not None:
            return "stated"
        if stated.model_s is not None:
            return "measured"
        return (
            "its own"
            if any(provider.estimate_node_s(node, 1) is not None for node in nodes)
            else "assumed"
        )

    def seconds(self, graph: Graph, node: Node, provider: ExecutionProvider) -> float:
        """Of one node of ``graph``, the model's or one inside it, in one run."""
        stated = self._costs.providers.get(provider.name, ProviderCosts())
        operations = operation_count(graph, node)
        per_operation = stated.operators.get(node.op_type, stated.seconds_per_operation)
        if per_operation is None and stated.model_s is not None:
            return stated.model_s * node_work(graph, node) / self._work
        if per_operation is None:
            said = provider.estimate_node_s(node, operations)
            if said is not None:
                return said
            per_operation = ASSUMED_SECONDS_PER_OPERATION
        per_node = (
            ASSUMED_SECONDS_PER_NODE if stated.seconds_per_node is None else stated.seconds_per_node
        )
        return per_node + operations * per_operation


def value_nbytes(graph: Graph, value: str) -> int:
    """Bytes of a value, unknown dimensions counted as nominal ones."""
    found = graph.type_of(value)
    if not isinstance(found, TensorType):
        return 0
    if found.element_type in {ElementType.STRING, ElementType.UNDEFINED}:
        return 0
    return stored_nbytes(found.element_type, value_size(graph, value))
