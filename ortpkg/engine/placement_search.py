"""Which provider should run each node so that nodes and transfers together cost least.

It computes with integers alone.

A dynamic programme over the topological order. All that the rest of a graph needs to know of a
choice so far is, for each value that somebody will still read, who made it and who has read it:
choices that agree in that are one state, of which the cheapest stays (with limits on memory, those
that no other beats in cost and bytes). So the result is exact, for any number of providers, as long
as there are at most :data:`MOST_CHOICES` of these after each node; beyond that the cheapest are
kept, and the result says that it may not be the best (docs/adr/0014-partition-by-cost.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: So many choices are followed from node to node. The live values of most models, two or three,
#: need far fewer.
MOST_CHOICES = 1024
#: Of choices that differ in nothing but cost and bytes, where a limit on memory binds.
_MOST_OF_A_STATE = 32

#: What makes the values that a graph is given, and reads those that it hands out.
HOST = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementProblem:
    """Nodes in topological order, each to be given to a provider; costs are in picoseconds.

    Attributes:
        costs: per node: provider → cost; a provider that is not there cannot run it.
        reads: per node: values that it reads.
        made: per node: values that it makes.
        given, handed_out: values that the graph is given (no constants), and those that it hands
            out.
        memory_of: per provider: its memory; 0 is the one that the CPU reads.
        copy_costs: per value: per memory: a copy of it between that memory and memory 0.
        crossing_costs: per provider: for each value that it takes from another provider, or that
            others take from it.
        constants: per node: (constant, bytes) that it reads.
        limits: per provider: most bytes of constants; None for any number.
    """

    costs: Sequence[Mapping[int, int]]
    reads: Sequence[Sequence[int]]
    made: Sequence[Sequence[int]]
    given: Sequence[int]
    handed_out: Sequence[int]
    memory_of: Sequence[int]
    copy_costs: Sequence[Sequence[int]]
    crossing_costs: Sequence[int]
    constants: Sequence[Sequence[tuple[int, int]]]
    limits: Sequence[int | None]

    def memory(self, provider: int) -> int:
        """The memory of a provider, or of the host."""
        return 0 if provider == HOST else self.memory_of[provider]

    def transfer_cost(self, value: int, home: int, readers: frozenset[int]) -> int:
        """The cost of ``value``, made by ``home``, for ``readers``: each copy and crossing once.

        From one memory that the CPU cannot read to another it goes by way of memory 0.
        """
        others = readers - {home}
        own = self.memory(home)
        needed = {self.memory(reader) for reader in others} - {own}
        ways = needed - {0} | ({own} if needed and own else set())
        crossing = (
            sum(self.crossing_costs[each] for each in (*others, home) if each != HOST)
            if others
            else 0
        )
        return crossing + sum(self.copy_costs[value][memory] for memory in ways)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A provider for each node.

    Attributes:
        providers: by node.
        compute_cost, transfer_cost: in picoseconds.
        is_within_limits: whether no provider is given more constants than its limit allows.
        is_exact: whether no other placement within the limits is cheaper, for certain.
    """

    providers: tuple[int, ...]
    compute_cost: int
    transfer_cost: int
    is_within_limits: bool
    is_exact: bool

    @property
    def cost(self) -> int:
        """Of nodes and transfers together."""
        return self.compute_cost + self.transfer_cost


def weigh(
    problem: PlacementProblem, providers: Sequence[int], *, is_exact: bool = False
) -> Placement:
    """What a placement costs."""
    homes = dict.fromkeys(problem.given, HOST)
    readers: dict[int, set[int]] = {value: set() for value in problem.given}
    held: dict[int, dict[int, int]] = {}
    for node, provider in enumerate(providers):
        for value in problem.made[node]:
            homes[value] = provider
            readers[value] = set()
        for value in problem.reads[node]:
            readers[value].add(provider)
        held.setdefault(provider, {}).update(problem.constants[node])
    for value in problem.handed_out:
        readers[value].add(HOST)
    limits = {provider: problem.limits[provider] for provider in held}
    return Placement(
        providers=tuple(providers),
        compute_cost=sum(problem.costs[node][provider] for node, provider in enumerate(providers)),
        transfer_cost=sum(
            problem.transfer_cost(value, homes[value], frozenset(by))
            for value, by in readers.items()
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
    """The cheapest placement within the limits; None where there is none.

    Of several that cost the same, it is always the same one.
    """
    return _Search(problem, most_choices).run()


@dataclass(frozen=True, slots=True)
class _Choice:
    """One way to a state: its cost, the constants' bytes per limited provider, nodes' choices."""

    cost: int
    used: tuple[int, ...]
    provider: int
    before: _Choice | None

    def beats(self, other: _Choice) -> bool:
        """Whether nothing speaks for ``other``."""
        return self.cost <= other.cost and all(
            a <= b for a, b in zip(self.used, other.used, strict=True)
        )


#: What is still to be known of a value that somebody will read: who made it, and who has read it.
_Known = tuple[int, frozenset[int]]
#: The same of all such values; constants with several readers are among them where there are
#: limits.
_State = tuple[_Known, ...]


class _Search:
    def __init__(self, problem: PlacementProblem, most_choices: int) -> None:
        self._problem = problem
        self._most_choices = most_choices
        # Where all constants together keep to a limit, it is none.
        total = sum(
            {each: nbytes for constants in problem.constants for each, nbytes in constants}.values()
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
        """The cheapest placement found; None where nothing keeps to the providers' limits."""
        problem = self._problem
        handed_out = frozenset(problem.handed_out)
        known = {
            ("value", value): (HOST, frozenset({HOST}) if value in handed_out else self._nothing)
            for value in problem.given
        }
        live = [key for key in known if key in self._last_use]
        states: dict[_State, list[_Choice]] = {
            tuple(known[key] for key in live): [_Choice(0, (0,) * len(self._limited), HOST, None)]
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
        """All states after ``node``, and what they know of."""
        problem = self._problem
        constants = (
            [("constant", constant) for constant, _ in problem.constants[node]]
            if self._limited
            else []
        )
        made = [("value", value) for value in problem.made[node]]
        after = [
            key
            for key in dict.fromkeys((*live, *constants, *made))
            if self._last_use.get(key, -1) > node
        ]
        found: dict[_State, list[_Choice]] = {}
        for state, choices in states.items():
            before = dict(zip(live, state, strict=True))
            for provider, cost in sorted(problem.costs[node].items()):
                known = dict(before)
                added = cost + self._read_and_make(node, provider, known, out)
                used = self._used(node, provider, known)
                target = found.setdefault(tuple(known[key] for key in after), [])
                for choice in choices:
                    self._add(target, choice, added, used, provider)
        return {
            state: self._unbeaten(choices) for state, choices in found.items() if choices
        }, after

    def _read_and_make(
        self, node: int, provider: int, known: dict[tuple[str, int], _Known], out: frozenset[int]
    ) -> int:
        """Bring ``known`` up to date for the node's values.

        Returns what that costs in transfers.
        """
        problem, added = self._problem, 0
        for value in dict.fromkeys(problem.reads[node]):
            home, readers = known["value", value]
            more = readers | {provider}
            added += problem.transfer_cost(value, home, more) - problem.transfer_cost(
                value, home, readers
            )
            known["value", value] = (home, more)
        for value in problem.made[node]:
            readers = frozenset({HOST}) if value in out else self._nothing
            added += problem.transfer_cost(value, provider, readers)
            known["value", value] = (provider, readers)
        return added

    def _used(
        self, node: int, provider: int, known: dict[tuple[str, int], _Known]
    ) -> tuple[int, ...]:
        """Constants' bytes that ``provider`` still lacks for the node, per limited provider."""
        if not self._limited:
            return ()
        nbytes = 0
        for constant, size in dict(self._problem.constants[node]).items():
            _, holders = known.get(("constant", constant), (HOST, self._nothing))
            nbytes += 0 if provider in holders else size
            known["constant", constant] = (HOST, holders | {provider})
        return tuple(nbytes if each == provider else 0 for each in self._limited)

    def _add(
        self,
        target: list[_Choice],
        before: _Choice,
        cost: int,
        used: tuple[int, ...],
        provider: int,
    ) -> None:
        total = tuple(a + b for a, b in zip(before.used, used, strict=True))
        limits = (self._problem.limits[each] for each in self._limited)
        if any(
            limit is not None and nbytes > limit
            for nbytes, limit in zip(total, limits, strict=True)
        ):
            return
        target.append(_Choice(before.cost + cost, total, provider, before))

    def _unbeaten(self, choices: Sequence[_Choice]) -> list[_Choice]:
        """Those that no other beats, cheapest first; of equal ones the first."""
        kept: list[_Choice] = []
        for choice in sorted(choices, key=lambda each: (each.cost, each.used)):
            if any(known.beats(choice) for known in reversed(kept)):
                continue
            if len(kept) == _MOST_OF_A_STATE:
                self._is_exact = False
                break
            kept.append(choice)
        return kept

    def _cheapest(self, states: dict[_State, list[_Choice]]) -> dict[_State, list[_Choice]]:
        """The cheapest :data:`MOST_CHOICES` of all."""
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
        found: list[int] = []
        choice: _Choice | None = last
        while choice is not None and choice.before is not None:
            found.append(choice.provider)
            choice = choice.before
        return found[::-1]
