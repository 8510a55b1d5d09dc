"""Partitioning by cost: which provider gets each node, weighed by operator, limits and transfers.

First come, first served stays the default. Under this policy all providers are asked what they
would run of a graph of which nothing is taken; of these claims the cheapest placement is found
(:mod:`ortpkg.engine.placement_search`), held against what first come would give, and the cheaper of
the two is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ortpkg.engine.memories import memories_of
from ortpkg.engine.partition_costs import (
    NodeCosts,
    PartitionCosts,
    ProviderCosts,
    TransferCosts,
    value_nbytes,
)
from ortpkg.engine.placement_search import Placement, PlacementProblem, find_cheapest, weigh
from ortpkg.ep_context.context_node import is_ep_context
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.operator_schemas import constraint_types
from ortpkg.graph.topology import topological_order
from ortpkg.providers.allocator import DeviceAllocator
from ortpkg.providers.execution_provider import ExecutionProvider

#: What a value costs that goes into or comes out of a native library, where nobody says.
ASSUMED_SECONDS_PER_CROSSING = 10e-6
_PICOSECONDS = 1e12

#: Groups of nodes that a provider would take, each as a whole.
Claims = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedPlacement:
    """What a policy gives for one graph, in seconds of one run as far as the costs are right.

    Attributes:
        compute_s, transfer_s: of all nodes, and of all values that cross.
        node_counts: provider → nodes, in order of priority.
        is_within_limits: whether the weights fit into the memories of the devices.
    """

    compute_s: float
    transfer_s: float
    node_counts: Mapping[str, int]
    is_within_limits: bool

    @property
    def total_s(self) -> float:
        """Of both together."""
        return self.compute_s + self.transfer_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChoice:
    """Both policies' answers for one graph.

    Attributes:
        graph_path: "" for the main graph, else the way to the sub-graph.
        first_come, cost: what each gives; ``cost`` is never dearer, but where only it keeps to the
            limits.
        is_exact: whether no placement is cheaper than ``cost``, for certain.
        differs: whether they give nodes to different providers.
        sources: provider → where its costs are from, see :meth:`NodeCosts.source`.
    """

    graph_path: str
    first_come: WeighedPlacement
    cost: WeighedPlacement
    is_exact: bool
    differs: bool
    sources: Mapping[str, str]


class CostPolicy:
    """Chooses providers for the graphs of one model."""

    def __init__(
        self, model: Graph, providers: Sequence[ExecutionProvider], costs: PartitionCosts
    ) -> None:
        """``providers``: in order of priority.

        The last takes what is left, as in first come, first served.
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
        said = [memories.device_allocator(device) for device in far]
        self._transfers = [costs.transfers.get(each.name, _transfers_of(each)) for each in said]

    def choose(
        self, graph: Graph, graph_path: str, ask: Callable[[ExecutionProvider], Claims]
    ) -> tuple[Mapping[int, str], PartitionChoice | None]:
        """The provider of each node of ``graph`` by its index, and how it was chosen.

        None is chosen, and nothing assigned, for a graph with compiled contexts: these are for one
        provider each.

        Args:
            graph: nothing of it is assigned yet.
            graph_path: where it lies in its model.
            ask: what a provider would run of it.
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
        """Who gets each node where each claim holds for which all nodes are still free."""
        taken: dict[int, int] = {}
        for provider, groups in enumerate(claims):
            for group in groups:
                if not any(index in taken for index in group):
                    taken.update(dict.fromkeys(group, provider))
        left_over = [
            min(costs) if self._last not in costs else self._last for costs in problem.costs
        ]
        return [taken.get(node.index, spare) for node, spare in zip(nodes, left_over, strict=True)]

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
        made = {value for node in nodes for value in node.outputs if value}
        reads = [_variables(graph, node) for node in nodes]
        given = [
            value
            for value in dict.fromkeys(value for values in reads for value in values)
            if value not in made
        ]
        numbers = {
            value: number for number, value in enumerate((*given, *dict.fromkeys(_made(nodes))))
        }
        return PlacementProblem(
            costs=self._costs_of(graph, nodes, claims),
            reads=[[numbers[value] for value in values] for values in reads],
            made=[[numbers[value] for value in node.outputs if value] for node in nodes],
            given=[numbers[value] for value in given],
            handed_out=[numbers[value] for value in dict.fromkeys(graph.outputs) if value in made],
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
        found = []
        for node in nodes:
            able = [number for number, indices in enumerate(claimed) if node.index in indices]
            if self._last not in able and (not able or self._has_kernel(graph, node)):
                able.append(self._last)
            found.append(
                {
                    number: _picoseconds(
                        self._node_costs.seconds(graph, node, self._providers[number])
                    )
                    for number in sorted(able)
                }
            )
        return found

    def _has_kernel(self, graph: Graph, node: Node) -> bool:
        return (
            self._providers[self._last].find_kernel(node, constraint_types(graph, node)) is not None
        )

    def _copy_costs(self, nbytes: int) -> tuple[int, ...]:
        copies = (
            each.seconds_per_copy + nbytes * each.seconds_per_byte for each in self._transfers
        )
        return (0, *map(_picoseconds, copies))

    def _stated(self, provider: ExecutionProvider) -> ProviderCosts:
        return self._costs.providers.get(provider.name, ProviderCosts())

    def _crossing_s(self, provider: ExecutionProvider) -> float:
        stated = self._stated(provider).seconds_per_crossing
        if stated is not None:
            return stated
        return ASSUMED_SECONDS_PER_CROSSING if provider.computes_natively else 0.0

    def _limit(self, number: int) -> int | None:
        """Bytes of constants that a provider's memory holds; the CPU's has no limit here."""
        provider = self._providers[number]
        stated = self._stated(provider).memory_nbytes
        if stated is not None or not self._memory_of[number]:
            return stated
        offered = [
            each.device.memory_nbytes
            for each in provider.get_ep_devices()
            if each.device is not None
        ]
        known = [nbytes for nbytes in offered if nbytes is not None]
        return min(known) if known else None


def _transfers_of(allocator: DeviceAllocator) -> TransferCosts:
    return TransferCosts(
        seconds_per_copy=allocator.seconds_per_copy, seconds_per_byte=allocator.seconds_per_byte
    )


def _made(nodes: Sequence[Node]) -> Iterable[str]:
    return (value for node in nodes for value in node.outputs if value)


def _variables(graph: Graph, node: Node) -> list[str]:
    """What a node, or a graph inside it, takes that is no constant."""
    taken = dict.fromkeys(value for value in (*node.inputs, *node.implicit_inputs) if value)
    return [value for value in taken if graph.constant(value) is None]


def _constants(graph: Graph, nodes: Sequence[Node]) -> list[list[tuple[int, int]]]:
    """Per node: the constants that it reads, by number, and their bytes."""
    numbers: dict[int, int] = {}
    found: list[list[tuple[int, int]]] = []
    for node in nodes:
        found.append([])
        for value in dict.fromkeys(value for value in node.inputs if value):
            constant = graph.constant(value)
            if constant is not None:
                found[-1].append((numbers.setdefault(id(constant), len(numbers)), constant.nbytes))
    return found


def _picoseconds(seconds: float) -> int:
    return round(seconds * _PICOSECONDS)
