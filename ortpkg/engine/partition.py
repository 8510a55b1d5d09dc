"""What one execution provider runs of a graph, and the constants that it takes in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ortpkg.engine.fused_kernel import FusedKernel
from ortpkg.engine.partition_policy import PartitionChoice
from ortpkg.graph.graph import Graph, Initializer, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Nodes of a graph that one provider runs.

    Attributes:
        provider: its name.
        graph_path: "" for the main graph, else the way to the sub-graph, e.g.
            ``"if_0.then_branch"``.
        work: estimated operations of all nodes; sizes known only at run time count as 64.
        refusals: node name → provider that was asked before and left it → why, as far as they say.
        weights_of: node name → bytes of the constants that it is the first of the nodes to read, in
            a fused node with those of graphs inside it. What an earlier partition of the same
            provider reads counts there.
        node_names, op_types, domains: the nodes, as they were before fusing.
        fused_node: name of the node that stands for them; "" where the nodes run one by one.
    """

    provider: str
    node_names: tuple[str, ...]
    op_types: tuple[str, ...]
    domains: tuple[str, ...] = ()
    fused_node: str = ""
    graph_path: str = ""
    weights_of: Mapping[str, int] = field(default_factory=dict)
    refusals: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    work: int = 0

    @property
    def weight_nbytes(self) -> int:
        """Bytes of the constants that the partition takes in."""
        return sum(self.weights_of.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """The outcome for a graph and all graphs inside it.

    Attributes:
        partitions: in order of assignment, the main graph's first.
        fused: the compiled partition behind each fused node.
        choices: per graph, what both policies give, where cost decides.
    """

    partitions: tuple[Partition, ...]
    fused: Mapping[Node, FusedKernel]
    choices: tuple[PartitionChoice, ...] = ()


def constants_of(
    graph: Graph, node: Node, with_subgraphs: bool, seen: set[int]
) -> Iterator[Initializer]:
    """Constants that ``node`` reads and whose identities are not in ``seen``, but then are."""
    for value in node.inputs:
        constant = graph.constant(value) if value else None
        if constant is not None and id(constant) not in seen:
            seen.add(id(constant))
            yield constant
    if with_subgraphs:
        for subgraph in node.subgraphs.values():
            for inner in subgraph.nodes:
                yield from constants_of(subgraph, inner, with_subgraphs, seen)
