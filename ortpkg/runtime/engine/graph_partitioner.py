"""Divide a graph among execution providers: first come, first served, or by cost.

Source: the partitioning article. Each provider is asked in order which of the nodes it can run. A
capability without a meta definition assigns one node; with one it is a sub-graph that becomes a
single fused node, which the provider then compiles. A claim that includes a taken node is dropped
as a whole. A provider is asked a second time about the float16 nodes that it left, as if they were
float32: those it then claims get casts around them first (ADR 15). Nodes that no provider claims go
to the last provider, the CPU. Afterwards the sub-graphs (If, Loop, Scan bodies) of the nodes that
were not fused are partitioned in the same way.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ortpkg.foundations.errors import CompileError, ExecutionProviderError, OrtpkgError, quoted
from ortpkg.foundations.host.signal_handlers import pass_on_handlers_error
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.operator_schemas import constraint_types
from ortpkg.graph.topology import topological_order
from ortpkg.graph.types import ElementType
from ortpkg.runtime.engine.claim_cycles import are_free_of_cycles, leaves_and_returns
from ortpkg.runtime.engine.device_copies import is_copy
from ortpkg.runtime.engine.execution_plan import implicit_inputs_of
from ortpkg.runtime.engine.fused_kernel import FusedKernel
from ortpkg.runtime.engine.kernel_lookup import no_kernel
from ortpkg.runtime.engine.partition import Partition, PartitionResult, constants_of
from ortpkg.runtime.engine.partition_policy import CostPolicy, PartitionChoice
from ortpkg.runtime.engine.provider_answers import (
    answers_of,
    capabilities_of,
    guard,
    is_foreign,
    verify_callable,
)
from ortpkg.runtime.engine.transformers.insert_cast import (
    widen_nodes,
    widenable_nodes,
    widened_types,
)
from ortpkg.runtime.providers.execution_provider import (
    ComputeCapability,
    ExecutionProvider,
    FusedNode,
    GraphViewer,
    MetaDef,
    NodeComputeInfo,
)
from ortpkg.runtime.providers.node_indices import verified_indices
from ortpkg.runtime.providers.node_work import operation_count
from ortpkg.runtime.providers.partition_body import partition_body

_log = logging.getLogger(__name__)


def partition_graph(
    graph: Graph,
    providers: Sequence[ExecutionProvider],
    *,
    graph_path: str = "",
    policy: CostPolicy | None = None,
) -> PartitionResult:
    """Assign each node of ``graph`` and of its sub-graphs to a provider; changes the graph.

    Args:
        graph: the graph, with inferred shapes and types.
        providers: execution providers in order of priority; the last takes what is left.
        graph_path: path of the graph in its model, for messages.
        policy: decides by cost; None for first come, first served.

    Raises:
        CompileError: a provider compiles a wrong number of nodes, or fails.
        ExecutionProviderError: a capability breaks the contract.
        KernelNotFoundError: the model has copy nodes of its own.
    """
    return _partition_with_subgraphs(graph, providers, graph_path, {}, policy)


def _partition_with_subgraphs(
    graph: Graph,
    providers: Sequence[ExecutionProvider],
    graph_path: str,
    counted: dict[str, set[int]],
    policy: CostPolicy | None,
) -> PartitionResult:
    """Partition a graph and its sub-graphs.

    ``counted``: provider → identities of the constants that it reads so far.
    """
    result = _Partitioner(graph, providers, graph_path, counted, policy).partition()
    partitions, fused, choices = list(result.partitions), dict(result.fused), list(result.choices)
    for node in graph.nodes:
        if node in result.fused:
            continue
        if is_copy(
            node
        ):  # a copy node of the model: ours are inserted later, and no kernel computes it
            raise no_kernel(graph, node, constraint_types(graph, node), providers)
        for attribute, subgraph in node.subgraphs.items():
            path = (
                f"{graph_path}/{node.name}.{attribute}"
                if graph_path
                else f"{node.name}.{attribute}"
            )
            inner = _partition_with_subgraphs(subgraph, providers, path, counted, policy)
            partitions += inner.partitions
            fused.update(inner.fused)
            choices += inner.choices
        if node.subgraphs:  # constants of fused nodes went along with them
            graph.set_implicit_inputs(node, implicit_inputs_of(node))
    return PartitionResult(partitions=tuple(partitions), fused=fused, choices=tuple(choices))


@dataclass(slots=True)
class _Claims:
    """Nodes of a graph that one provider got: single ones, and fused ones.

    Attributes:
        single: single nodes.
        fused: fused nodes with their bodies.
        replaced: per fused node: the nodes that it replaces.
    """

    single: list[Node] = field(default_factory=list)
    fused: list[FusedNode] = field(default_factory=list)
    replaced: list[Sequence[Node]] = field(default_factory=list)


class _Partitioner:
    def __init__(
        self,
        graph: Graph,
        providers: Sequence[ExecutionProvider],
        graph_path: str,
        counted: dict[str, set[int]],
        policy: CostPolicy | None,
    ) -> None:
        self._policy = policy
        self._graph = graph
        self._providers = providers
        self._path = graph_path
        self._counted = counted
        self._partitions: list[Partition] = []
        self._fused: dict[Node, FusedKernel] = {}
        #: Provider → node index → reason for leaving the node.
        self._refusals: dict[str, Mapping[int, str]] = {}

    def partition(self) -> PartitionResult:
        """Assign all nodes: by the policy's choice, then by the providers' order."""
        chosen, choice = ({}, None) if self._policy is None else self._choose(self._policy)
        for provider in self._providers:
            indices = [
                index
                for index, name in chosen.items()
                if name == provider.name and self._graph.has_node(index)
            ]
            for index in indices:
                self._graph.assign(self._graph.node(index), "")
                del chosen[index]
            self._place(provider)
        self._place_left_over()
        choices = () if choice is None else (choice,)
        return PartitionResult(
            partitions=tuple(self._partitions), fused=self._fused, choices=choices
        )

    def _choose(self, policy: CostPolicy) -> tuple[dict[int, str], PartitionChoice | None]:
        """Assign nodes by cost; each provider is then asked about its own nodes only."""
        viewer = GraphViewer(self._graph, topological_order(self._graph))

        def ask(provider: ExecutionProvider) -> list[tuple[int, ...]]:
            claims = [
                claim.node_indices for claim in capabilities_of(provider, viewer, self._types_of)
            ]
            return [*claims, *((index,) for index in sorted(self._wanted_in_float32(provider)))]

        chosen, choice = policy.choose(self._graph, self._path, ask)
        for index, name in chosen.items():
            self._graph.assign(self._graph.node(index), name)
        return dict(chosen), choice

    def _place_left_over(self) -> None:
        """Assign nodes that no provider claimed to the last provider (the CPU)."""
        last = self._providers[-1]
        left_over = [node for node in self._graph.nodes if not node.execution_provider]
        for node in left_over:
            self._graph.assign(node, last.name)
        if left_over:
            self._add_partition(last, left_over, self._graph)

    def _place(self, provider: ExecutionProvider) -> None:
        """Ask one provider, assign its single nodes, fuse and compile its sub-graphs."""
        claims = _Claims()
        self._ask(provider, claims)
        if provider is not self._providers[-1] and self._insert_casts(provider):
            self._ask(provider, claims)
        if claims.single:
            self._add_partition(provider, claims.single, self._graph)
        self._compile(provider, claims.fused, claims.replaced)

    def _insert_casts(self, provider: ExecutionProvider) -> bool:
        """Widen the float16 nodes that ``provider`` left and would take as float32.

        Return True if there are any.
        """
        wanted = self._wanted_in_float32(provider)
        return bool(wanted and widen_nodes(self._graph, wanted))

    def _wanted_in_float32(self, provider: ExecutionProvider) -> set[int]:
        candidates = widenable_nodes(self._graph)
        if not candidates:
            return set()
        viewer = GraphViewer(self._graph, topological_order(self._graph))
        with guard(provider, "say which nodes it runs"):
            wanted = provider.nodes_for_float32(
                viewer, lambda node: widened_types(self._types_of(node))
            )
            return candidates.intersection(
                verified_indices(provider.name, "nodes_for_float32", wanted, self._graph)
            )

    def _types_of(self, node: Node) -> Mapping[str, ElementType]:
        return constraint_types(self._graph, node)

    def _ask(self, provider: ExecutionProvider, claims: _Claims) -> None:
        """Add the free nodes that a provider claims to ``claims``, one node per sub-graph."""
        viewer = GraphViewer(self._graph, topological_order(self._graph))
        names = {node.index: node.name for node in self._graph.nodes}
        claimed: set[int] = set()
        capabilities = capabilities_of(provider, viewer, self._types_of)
        with guard(provider, "say why it leaves nodes"):
            self._refusals[provider.name] = dict(provider.get_node_refusals())
        are_free = are_free_of_cycles(
            self._graph,
            [claim.node_indices for claim in capabilities if claim.meta_def is not None],
        )
        for capability in capabilities:
            if repeated := claimed.intersection(capability.node_indices):
                _log.warning(
                    "%s claims node %s twice in one answer; only the first claim counts, and the"
                    " other is ignored",
                    provider.name,
                    ", ".join(quoted(names[index]) for index in sorted(repeated)[:5]),
                )
                continue
            if capability.meta_def is None:
                node = self._single_node(provider, capability)
                if node is not None:
                    claimed.add(node.index)
                    self._graph.assign(node, provider.name)
                    claims.single.append(node)
            else:
                nodes = self._free_nodes(capability)
                if nodes is not None and (are_free or self._may_fuse(provider, nodes)):
                    claimed.update(capability.node_indices)
                    claims.fused.append(self._fuse(provider, nodes, capability.meta_def))
                    claims.replaced.append(nodes)

    def _single_node(
        self, provider: ExecutionProvider, capability: ComputeCapability
    ) -> Node | None:
        """Return the node of a claim without a meta definition; None if it is taken."""
        if len(capability.node_indices) != 1:
            raise ExecutionProviderError(
                f"{provider.name} claims {len(capability.node_indices)} nodes without a meta"
                " definition; such a capability holds exactly one",
                ep_name=provider.name,
            )
        nodes = self._free_nodes(capability)
        return None if nodes is None else nodes[0]

    def _free_nodes(self, capability: ComputeCapability) -> list[Node] | None:
        """Return the claimed nodes in order; None if one of them is taken or gone."""
        nodes = []
        for index in sorted(set(capability.node_indices)):
            if not self._graph.has_node(index) or self._graph.node(index).execution_provider:
                return None
            nodes.append(self._graph.node(index))
        return nodes or None

    def _may_fuse(self, provider: ExecutionProvider, nodes: Sequence[Node]) -> bool:
        """Return True if fusing ``nodes`` creates no cycle; log claims that would."""
        if not leaves_and_returns(self._graph, nodes, topological_order(self._graph)):
            return True
        names = ", ".join(quoted(node.name) for node in nodes[:5])
        _log.warning(
            "%s claims a sub-graph (%s, ...) that would depend on itself; ignored",
            provider.name,
            names,
        )
        return False

    def _fuse(self, provider: ExecutionProvider, nodes: Sequence[Node], meta: MetaDef) -> FusedNode:
        """Replace ``nodes`` by one node, and return it with its body."""
        body = partition_body(self._graph, nodes, meta, provider.name)
        for node in nodes:
            self._graph.remove_node(node)
        node = self._graph.add_node(
            meta.name,
            meta.inputs,
            meta.outputs,
            domain=meta.domain,
            name=meta.name,
            attributes=meta.attributes,
            since_version=1,
            execution_provider=provider.name,
            doc_string=meta.doc_string,
            at=nodes[0],
        )
        return FusedNode(node=node, body=body)

    def _compile(
        self,
        provider: ExecutionProvider,
        fused: Sequence[FusedNode],
        replaced: Sequence[Sequence[Node]],
    ) -> None:
        if not fused:
            return
        try:
            with guard(provider, "compile"):
                answers = list(provider.compile(fused))
            compute_infos = answers_of(NodeComputeInfo, answers, provider, "compile")
            verify_callable(provider, compute_infos)
        except OrtpkgError:
            raise
        except Exception as error:
            pass_on_handlers_error(error)
            raise CompileError(
                f"{provider.name} failed to compile: {error}", ep_name=provider.name
            ) from error
        if len(compute_infos) != len(fused):
            raise CompileError(
                f"{provider.name} returned {len(compute_infos)} compute functions for {len(fused)}"
                " fused nodes",
                ep_name=provider.name,
            )
        for fused_node, nodes, compute_info in zip(fused, replaced, compute_infos, strict=True):
            self._fused[fused_node.node] = FusedKernel(
                provider=provider.name,
                compute_info=compute_info,
                body=fused_node.body,
                is_foreign=is_foreign(provider),
            )
            self._add_partition(provider, nodes, fused_node.body, fused_node=fused_node.node.name)

    def _add_partition(
        self,
        provider: ExecutionProvider,
        nodes: Sequence[Node],
        graph: Graph,
        *,
        fused_node: str = "",
    ) -> None:
        """Record a partition; ``graph`` is a fused node's body, or the partitioner's graph."""
        counted = self._counted.setdefault(provider.name, set())
        partition = Partition(
            provider=provider.name,
            node_names=tuple(node.name for node in nodes),
            op_types=tuple(node.op_type for node in nodes),
            domains=tuple(node.domain for node in nodes),
            fused_node=fused_node,
            graph_path=self._path,
            weights_of={
                node.name: sum(
                    constant.nbytes
                    for constant in constants_of(graph, node, bool(fused_node), counted)
                )
                for node in nodes
            },
            refusals={node.name: reasons for node in nodes if (reasons := self._refusals_of(node))},
            work=sum(operation_count(graph, node) for node in nodes),
        )
        self._partitions.append(partition)

    def _refusals_of(self, node: Node) -> Mapping[str, str]:
        return {
            provider: reasons[node.index]
            for provider, reasons in self._refusals.items()
            if node.index in reasons
        }
