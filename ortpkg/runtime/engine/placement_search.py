"""Search the provider of each node so that nodes and transfers together cost least.

Computes with integers only. It is a dynamic programme over the topological order. The rest of a
graph depends on the choices so far only by, for each value that will still be read, who made it and
who has read it. Choices that agree in this form one state, of which the cheapest is kept (with
memory limits: those that no other beats in cost and bytes). So the result is exact, for any number
of providers, as long as there are at most :data:`MOST_CHOICES` of these after each node; beyond
that the cheapest are kept, and the result says that it may not be the best
(docs/adr/0014-partition-by-cost.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Most choices that are followed from node to node. Most models have two or three live values, and
#: need far fewer.
MOST_CHOICES = 1024
#: Most choices of one state (they differ only in cost and bytes) under a memory limit.
_MOST_CHOICES_OF_A_STATE = 32

#: Maker of the graph's inputs, and reader of its outputs.
HOST = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementProblem:
    """Nodes in topological order, each to be given to a provider; costs are in picoseconds.

    Attributes:
        costs: per node: provider → cost; a missing provider cannot run it.
        reads: per node: values that it reads.
        writes: per node: values that it makes.
        graph_inputs, graph_outputs: values that the graph takes (no constants), and that it
            returns.
        memory_of: per provider: its memory; 0 is the one that the CPU reads.
        copy_costs: per value: per memory: cost of a copy between that memory and memory 0.
        crossing_costs: per provider: cost of each value that it takes from another provider, or
            that others take from it.
        constants: per node: (constant, bytes) that it reads.
        limits: per provider: most bytes of constants; None for any number.
    """

    costs: Sequence[Mapping[int, int]]
    reads: Sequence[Sequence[int]]
    writes: Sequence[Sequence[int]]
    graph_inputs: Sequence[int]
    graph_outputs: Sequence[int]
    memory_of: Sequence[int]
    copy_costs: Sequence[Sequence[int]]
    crossing_costs: Sequence[int]
    constants: Sequence[Sequence[tuple[int, int]]]
    limits: Sequence[int | None]

    def memory(self, provider: int) -> int:
        """Return the memory of a provider, or of the host."""
        return 0 if provider == HOST else self.memory_of[provider]

    def transfer_cost(self, value: int, home: int, readers: frozenset[int]) -> int:
        """Return the cost of moving ``value`` from ``home`` to ``readers``.

        Each copy and crossing counts once. A copy between two memories that the CPU cannot read
        goes by way of memory 0.
        """
        others = readers - {home}
        home_memory = self.memory(home)
        needed = {self.memory(reader) for reader in others} - {home_memory}
        copied = needed - {0} | ({home_memory} if needed and home_memory else set())
        crossing = (
            sum(self.crossing_costs[provider] for provider in (*others, home) if provider != HOST)
            if others
            else 0
        )
        return crossing + sum(self.copy_costs[value][memory] for memory in copied)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A provider for each node.

    Attributes:
        providers: providers by node.
        compute_cost, transfer_cost: costs in picoseconds.
        is_within_limits: True if no provider gets more constants than its limit allows.
        is_exact: True if certainly no other placement within the limits is cheaper.
    """

    providers: tuple[int, ...]
    compute_cost: int
    transfer_cost: int
    is_within_limits: bool
    is_exact: bool

    @property
    def cost(self) -> int:
        """Cost of nodes and transfers together."""
        return self.compute_cost + self.transfer_cost


def weigh(
    problem: PlacementProblem, providers: Sequence[int], *, is_exact: bool = False
) -> Placement:
    """Return a placement with its costs."""
    homes = dict.fromkeys(problem.graph_inputs, HOST)
    readers: dict[int, set[int]] = {value: set() for value in problem.graph_inputs}
    held: dict[int, dict[int, int]] = {}
    for node, provider in enumerate(providers):
        for value in problem.writes[node]:
            homes[value] = provider
            readers[value] = set()
        for value in problem.reads[node]:
            readers[value].add(provider)
        held.setdefault(provider, {}).update(problem.constants[node])
    for value in problem.graph_outputs:
        readers[value].add(HOST)
    limits = {provider: problem.limits[provider] for provider in held}
    return Placement(
        providers=tuple(providers),
        compute_cost=sum(problem.costs[node][provider] for node, provider in enumerate(providers)),
        transfer_cost=sum(
            problem.transfer_cost(value, homes[value], frozenset(value_readers))
            for value, value_readers in readers.items()
        ),
        is_within_limits=all(
            limit is None or sum(held[provider].values()) <= limit
            for provider, limit in limits.items()
        ),
        is_exact=is_exact,
    )


def find_cheapest(
    problem: PlacementProblem, *, most_choices: int = MOST_CHOICES
) -> Placement | None:
    """Return the cheapest placement within the limits; None if there is none.

    The choice among several of equal cost is deterministic.
    """
    return _Search(problem, most_choices).run()


@dataclass(frozen=True, slots=True)
class _Choice:
    """A path to a state.

    Attributes:
        cost: cost of the nodes and transfers so far.
        constant_nbytes: bytes of constants per limited provider.
        provider: provider of the last node.
        previous: path to the node before; None at the start.
    """

    cost: int
    constant_nbytes: tuple[int, ...]
    provider: int
    previous: _Choice | None

    def beats(self, other: _Choice) -> bool:
        """Return True if ``other`` is better in neither cost nor bytes."""
        return self.cost <= other.cost and all(
            a <= b for a, b in zip(self.constant_nbytes, other.constant_nbytes, strict=True)
        )


#: Maker and readers so far of a value that will still be read.
_Uses = tuple[int, frozenset[int]]
#: The same for all such values, and with limits for constants with several readers.
_State = tuple[_Uses, ...]


class _Search:
    def __init__(self, problem: PlacementProblem, most_choices: int) -> None:
        self._problem = problem
        self._most_choices = most_choices
        # A limit that all constants together keep is ignored.
        total = sum(
            {
                constant: nbytes
                for constants in problem.constants
                for constant, nbytes in constants
            }.values()
        )
        self._limited = [
            number
            for number, limit in enumerate(problem.limits)
            if limit is not None and limit < total
        ]
        self._nothing = frozenset[int]()
        self._is_exact = True
        last_use: dict[tuple[str, int], int] = {}
        for node, (values, constants) in enumerate(
            zip(problem.reads, problem.constants, strict=True)
        ):
            last_use.update({("value", value): node for value in values})
            if self._limited:
                last_use.update({("constant", constant): node for constant, _ in constants})
        self._last_use = last_use

    def run(self) -> Placement | None:
        """Return the cheapest placement found; None if none keeps the providers' limits."""
        problem = self._problem
        handed_out = frozenset(problem.graph_outputs)
        uses = {
            ("value", value): (HOST, frozenset({HOST}) if value in handed_out else self._nothing)
            for value in problem.graph_inputs
        }
        live = [key for key in uses if key in self._last_use]
        states: dict[_State, list[_Choice]] = {
            tuple(uses[key] for key in live): [_Choice(0, (0,) * len(self._limited), HOST, None)]
        }
        for node in range(len(problem.costs)):
            states, live = self._step(node, states, live, handed_out)
            states = self._cheapest(states)
        ends = [choice for choices in states.values() for choice in choices]
        if not ends:
            return None
        return weigh(
            problem,
            self._providers(min(ends, key=lambda choice: choice.cost)),
            is_exact=self._is_exact,
        )

    def _step(
        self,
        node: int,
        states: Mapping[_State, Sequence[_Choice]],
        live: Sequence[tuple[str, int]],
        out: frozenset[int],
    ) -> tuple[dict[_State, list[_Choice]], list[tuple[str, int]]]:
        """Return all states after ``node``, and the values that they cover."""
        problem = self._problem
        constants = (
            [("constant", constant) for constant, _ in problem.constants[node]]
            if self._limited
            else []
        )
        outputs = [("value", value) for value in problem.writes[node]]
        after = [
            key
            for key in dict.fromkeys((*live, *constants, *outputs))
            if self._last_use.get(key, -1) > node
        ]
        next_states: dict[_State, list[_Choice]] = {}
        for state, choices in states.items():
            before = dict(zip(live, state, strict=True))
            for provider, cost in sorted(problem.costs[node].items()):
                uses = dict(before)
                added = cost + self._read_and_make(node, provider, uses, out)
                used = self._used(node, provider, uses)
                target = next_states.setdefault(tuple(uses[key] for key in after), [])
                for choice in choices:
                    self._add(target, choice, added, used, provider)
        return {
            state: self._unbeaten(choices) for state, choices in next_states.items() if choices
        }, after

    def _read_and_make(
        self, node: int, provider: int, uses: dict[tuple[str, int], _Uses], out: frozenset[int]
    ) -> int:
        """Update ``uses`` for the node's inputs and outputs; return the cost of the transfers."""
        problem, added = self._problem, 0
        for value in dict.fromkeys(problem.reads[node]):
            home, readers = uses["value", value]
            new_readers = readers | {provider}
            added += problem.transfer_cost(value, home, new_readers) - problem.transfer_cost(
                value, home, readers
            )
            uses["value", value] = (home, new_readers)
        for value in problem.writes[node]:
            readers = frozenset({HOST}) if value in out else self._nothing
            added += problem.transfer_cost(value, provider, readers)
            uses["value", value] = (provider, readers)
        return added

    def _used(
        self, node: int, provider: int, uses: dict[tuple[str, int], _Uses]
    ) -> tuple[int, ...]:
        """Return the bytes of the node's constants that a provider lacks, per limited provider."""
        if not self._limited:
            return ()
        nbytes = 0
        for constant, size in dict(self._problem.constants[node]).items():
            _, holders = uses.get(("constant", constant), (HOST, self._nothing))
            nbytes += 0 if provider in holders else size
            uses["constant", constant] = (HOST, holders | {provider})
        return tuple(nbytes if limited == provider else 0 for limited in self._limited)

    def _add(
        self,
        target: list[_Choice],
        before: _Choice,
        cost: int,
        used: tuple[int, ...],
        provider: int,
    ) -> None:
        total = tuple(a + b for a, b in zip(before.constant_nbytes, used, strict=True))
        limits = (self._problem.limits[provider_index] for provider_index in self._limited)
        if any(
            limit is not None and nbytes > limit
            for nbytes, limit in zip(total, limits, strict=True)
        ):
            return
        target.append(_Choice(before.cost + cost, total, provider, before))

    def _unbeaten(self, choices: Sequence[_Choice]) -> list[_Choice]:
        """Return the choices that no other beats, cheapest first; of equal ones the first."""
        unbeaten: list[_Choice] = []
        for choice in sorted(
            choices, key=lambda candidate: (candidate.cost, candidate.constant_nbytes)
        ):
            if any(better.beats(choice) for better in reversed(unbeaten)):
                continue
            if len(unbeaten) == _MOST_CHOICES_OF_A_STATE:
                self._is_exact = False
                break
            unbeaten.append(choice)
        return unbeaten

    def _cheapest(self, states: dict[_State, list[_Choice]]) -> dict[_State, list[_Choice]]:
        """Return the cheapest :data:`MOST_CHOICES` of all."""
        costs = sorted(choice.cost for choices in states.values() for choice in choices)
        if len(costs) <= self._most_choices:
            return states
        self._is_exact = False
        most, room = costs[self._most_choices - 1], self._most_choices
        for state, choices in states.items():
            states[state] = [choice for choice in choices if choice.cost <= most][:room]
            room -= len(states[state])
        return {state: choices for state, choices in states.items() if choices}

    @staticmethod
    def _providers(last: _Choice) -> list[int]:
        providers: list[int] = []
        choice: _Choice | None = last
        while choice is not None and choice.previous is not None:
            providers.append(choice.provider)
            choice = choice.previous
        return providers[::-1]
