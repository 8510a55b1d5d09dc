"""Partition by cost: weigh operators, memory limits and transfers for each node's provider.

First come, first served stays the default. Under this policy all providers are asked what they
would run of an unassigned graph. The cheapest placement is searched among these claims
(:mod:`ortpkg.runtime.engine.placement_search`) and compared with the placement by first come; the
cheaper of the two is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.operator_schemas import constraint_types
from ortpkg.graph.topology import topological_order
from ortpkg.runtime.engine.memories import memories_of
from ortpkg.runtime.engine.partition_costs import (
    NodeCosts,
    PartitionCosts,
    ProviderCosts,
    TransferCosts,
    value_nbytes,
)
from ortpkg.runtime.engine.placement_search import Placement, PlacementProblem, find_cheapest, weigh
from ortpkg.runtime.ep_context.context_node import is_ep_context
from ortpkg.runtime.providers.allocator import DeviceAllocator
from ortpkg.runtime.providers.execution_provider import ExecutionProvider

#: Cost of a value that enters or leaves a native library, in seconds, if it is not stated.
ASSUMED_SECONDS_PER_CROSSING = 10e-6
_PICOSECONDS = 1e12

#: Groups of node indices that a provider would take, each as a whole.
Claims = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedPlacement:
    """The result of a policy for one graph, in estimated seconds of one run.

    Attributes:
        compute_s, transfer_s: seconds of all nodes, and of all values that cross.
        node_counts: provider → number of nodes, in order of priority.
        is_within_limits: True if the weights fit into the memories of the devices.
    """

    compute_s: float
    transfer_s: float
    node_counts: Mapping[str, int]
    is_within_limits: bool

    @property
    def total_s(self) -> float:
        """Seconds of nodes and transfers together."""
        return self.compute_s + self.transfer_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChoice:
    """The results of both policies for one graph.

    Attributes:
        graph_path: "" for the main graph, else the path of the sub-graph.
        first_come, cost: the results; ``cost`` is never more expensive, unless only it keeps the
            limits.
        is_exact: True if certainly no placement is cheaper than ``cost``.
        differs: True if they give nodes to different providers.
        sources: provider → source of its costs, see :meth:`NodeCosts.source`.
    """

    graph_path: str
    first_come: WeighedPlacement
    cost: WeighedPlacement
    is_exact: bool
    differs: bool
    sources: Mapping[str, str]


class CostPolicy:
    """Choice of providers by cost for the graphs of one model."""

    def __init__(
        self, model: Graph, providers: Sequence[ExecutionProvider], costs: PartitionCosts
    ) -> None:
        """Prepare the costs of a model.

        Args:
            model: the main graph.
            providers: execution providers in order of priority; the last takes what is left.
            costs: stated or measured costs.
        """
        by_name = {provider.name: provider for provider in providers}
        self._providers = [
            by_name[name] for name in dict.fromkeys(provider.name for provider in providers)
        ]
        self._last = self._providers.index(by_name[providers[-1].name])
        self._costs = costs
        self._node_costs = NodeCosts(model, costs)
        memories = memories_of(self._providers)
        devices = [memories.devices[provider.name] for provider in self._providers]
        far = list(dict.fromkeys(device for device in devices if not device.is_host_accessible))
        self._memory_of = [
            0 if device.is_host_accessible else far.index(device) + 1 for device in devices
        ]
        allocators = [memories.device_allocator(device) for device in far]
        self._transfers = [
            costs.transfers.get(allocator.name, _transfers_of(allocator))
            for allocator in allocators
        ]

    def choose(
        self, graph: Graph, graph_path: str, ask: Callable[[ExecutionProvider], Claims]
    ) -> tuple[Mapping[int, str], PartitionChoice | None]:
        """Return the provider of each node of ``graph`` by its index, and how it was chosen.

        Nothing is chosen or assigned for a graph with compiled contexts: each of them needs one
        provider.

        Args:
            graph: the graph, without assigned nodes.
            graph_path: path of the graph in its model.
            ask: returns the nodes that a provider would run.
        """
        nodes = [graph.node(index) for index in topological_order(graph)]
        if not nodes or any(map(is_ep_context, nodes)):
            return {}, None
        claims = [ask(provider) for provider in self._providers]
        problem = self._problem(graph, nodes, claims)
        first_come = weigh(problem, self._first_come(nodes, problem, claims))
        best = find_cheapest(problem)
        is_exact = best is not None and best.is_exact
        if best is None or (first_come.is_within_limits and first_come.cost <= best.cost):
            best = first_come
        names = [self._providers[provider].name for provider in best.providers]
        choice = PartitionChoice(
            graph_path=graph_path,
            first_come=self._weighed(first_come),
            cost=self._weighed(best),
            is_exact=is_exact,
            differs=first_come.providers != best.providers,
            sources={
                provider.name: self._node_costs.source(nodes, provider)
                for provider in self._providers
            },
        )
        return {node.index: name for node, name in zip(nodes, names, strict=True)}, choice

    def _first_come(
        self, nodes: Sequence[Node], problem: PlacementProblem, claims: Sequence[Claims]
    ) -> list[int]:
        """Return the provider of each node if each claim whose nodes are all free wins."""
        provider_of: dict[int, int] = {}
        for provider, groups in enumerate(claims):
            for group in groups:
                if not any(index in provider_of for index in group):
                    provider_of.update(dict.fromkeys(group, provider))
        left_over = [
            min(costs) if self._last not in costs else self._last for costs in problem.costs
        ]
        return [
            provider_of.get(node.index, spare) for node, spare in zip(nodes, left_over, strict=True)
        ]

    def _weighed(self, placement: Placement) -> WeighedPlacement:
        counts = Counter(placement.providers)
        return WeighedPlacement(
            compute_s=placement.compute_cost / _PICOSECONDS,
            transfer_s=placement.transfer_cost / _PICOSECONDS,
            node_counts={
                provider.name: counts[number]
                for number, provider in enumerate(self._providers)
                if counts[number]
            },
            is_within_limits=placement.is_within_limits,
        )

    # --- the problem in integers ------------------------------------------------------------------

    def _problem(
        self, graph: Graph, nodes: Sequence[Node], claims: Sequence[Claims]
    ) -> PlacementProblem:
        outputs = {value for node in nodes for value in node.outputs if value}
        reads = [_variables(graph, node) for node in nodes]
        graph_inputs = [
            value
            for value in dict.fromkeys(value for values in reads for value in values)
            if value not in outputs
        ]
        numbers = {
            value: number
            for number, value in enumerate((*graph_inputs, *dict.fromkeys(_made(nodes))))
        }
        return PlacementProblem(
            costs=self._costs_of(graph, nodes, claims),
            reads=[[numbers[value] for value in values] for values in reads],
            writes=[[numbers[value] for value in node.outputs if value] for node in nodes],
            graph_inputs=[numbers[value] for value in graph_inputs],
            graph_outputs=[
                numbers[value] for value in dict.fromkeys(graph.outputs) if value in outputs
            ],
            memory_of=self._memory_of,
            copy_costs=[self._copy_costs(value_nbytes(graph, value)) for value in numbers],
            crossing_costs=[
                _picoseconds(self._crossing_s(provider)) for provider in self._providers
            ],
            constants=_constants(graph, nodes),
            limits=[self._limit(number) for number in range(len(self._providers))],
        )

    def _costs_of(
        self, graph: Graph, nodes: Sequence[Node], claims: Sequence[Claims]
    ) -> list[dict[int, int]]:
        claimed = [{index for group in groups for index in group} for groups in claims]
        costs = []
        for node in nodes:
            able = [number for number, indices in enumerate(claimed) if node.index in indices]
            if self._last not in able and (not able or self._has_kernel(graph, node)):
                able.append(self._last)
            costs.append(
                {
                    number: _picoseconds(
                        self._node_costs.seconds(graph, node, self._providers[number])
                    )
                    for number in sorted(able)
                }
            )
        return costs

    def _has_kernel(self, graph: Graph, node: Node) -> bool:
        return (
            self._providers[self._last].find_kernel(node, constraint_types(graph, node)) is not None
        )

    def _copy_costs(self, nbytes: int) -> tuple[int, ...]:
        copies = (
            transfer.seconds_per_copy + nbytes * transfer.seconds_per_byte
            for transfer in self._transfers
        )
        return (0, *map(_picoseconds, copies))

    def _stated_costs(self, provider: ExecutionProvider) -> ProviderCosts:
        return self._costs.providers.get(provider.name, ProviderCosts())

    def _crossing_s(self, provider: ExecutionProvider) -> float:
        seconds = self._stated_costs(provider).seconds_per_crossing
        if seconds is not None:
            return seconds
        return ASSUMED_SECONDS_PER_CROSSING if provider.computes_natively else 0.0

    def _limit(self, number: int) -> int | None:
        """Return the bytes of constants that a provider's memory holds; None for the CPU's."""
        provider = self._providers[number]
        limit = self._stated_costs(provider).memory_nbytes
        if limit is not None or not self._memory_of[number]:
            return limit
        offered = [
            ep_device.device.memory_nbytes
            for ep_device in provider.get_ep_devices()
            if ep_device.device is not None
        ]
        sizes = [nbytes for nbytes in offered if nbytes is not None]
        return min(sizes) if sizes else None


def _transfers_of(allocator: DeviceAllocator) -> TransferCosts:
    return TransferCosts(
        seconds_per_copy=allocator.seconds_per_copy, seconds_per_byte=allocator.seconds_per_byte
    )


def _made(nodes: Sequence[Node]) -> Iterable[str]:
    return (value for node in nodes for value in node.outputs if value)


def _variables(graph: Graph, node: Node) -> list[str]:
    """Return the inputs of a node, and of graphs inside it, that are not constants."""
    inputs = dict.fromkeys(value for value in (*node.inputs, *node.implicit_inputs) if value)
    return [value for value in inputs if graph.constant(value) is None]


def _constants(graph: Graph, nodes: Sequence[Node]) -> list[list[tuple[int, int]]]:
    """Return, per node, the constants that it reads, as (number, bytes)."""
    numbers: dict[int, int] = {}
    constants: list[list[tuple[int, int]]] = []
    for node in nodes:
        constants.append([])
        for value in dict.fromkeys(value for value in node.inputs if value):
            constant = graph.constant(value)
            if constant is not None:
                constants[-1].append(
                    (numbers.setdefault(id(constant), len(numbers)), constant.nbytes)
                )
    return constants


def _picoseconds(seconds: float) -> int:
    return round(seconds * _PICOSECONDS)
