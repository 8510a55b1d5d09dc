"""Partitions: the nodes of a graph that one execution provider runs, and their constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ortpkg.graph.graph import Graph, Initializer, Node
from ortpkg.runtime.engine.fused_kernel import FusedKernel
from ortpkg.runtime.engine.partition_policy import PartitionChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Nodes of a graph that one provider runs.

    Attributes:
        provider: name of the provider.
        graph_path: "" for the main graph, else the path of the sub-graph, e.g.
            ``"if_0.then_branch"``.
        work: estimated operations of all nodes; sizes known only at run time count as 64.
        refusals: node name → provider that left it → reason, as far as providers give one.
        weights_of: node name → bytes of the constants that no node before it reads; for a fused
            node including those of graphs inside it. A constant that an earlier partition of the
            same provider reads counts there.
        node_names, op_types, domains: the nodes, as they were before fusing.
        fused_node: name of the node that replaced them; "" if the nodes run one by one.
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
        """Bytes of the constants that the partition reads."""
        return sum(self.weights_of.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """The outcome of partitioning a graph and all graphs inside it.

    Attributes:
        partitions: partitions in order of assignment, the main graph's first.
        fused: the compiled partition behind each fused node.
        choices: per graph, the results of both policies, if cost decides.
    """

    partitions: tuple[Partition, ...]
    fused: Mapping[Node, FusedKernel]
    choices: tuple[PartitionChoice, ...] = ()


def constants_of(
    graph: Graph, node: Node, with_subgraphs: bool, counted: set[int]
) -> Iterator[Initializer]:
    """Yield the constants of ``node`` that are not counted yet.

    Their identities are added to ``counted``.
    """
    for value in node.inputs:
        constant = graph.constant(value) if value else None
        if constant is not None and id(constant) not in counted:
            counted.add(id(constant))
            yield constant
    if with_subgraphs:
        for subgraph in node.subgraphs.values():
            for inner in subgraph.nodes:
                yield from constants_of(subgraph, inner, with_subgraphs, counted)
