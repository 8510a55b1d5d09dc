"""Producers and uses of each value of a graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ortpkg.graph.load_control import polled_parts
from ortpkg.graph.operator_call import OperatorCall


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a value: a node and the input slot.

    Slot -1 is an implicit input of its sub-graphs.
    """

    node_index: int
    slot: int


class UseLists:
    """The producer and the uses of every value, kept right by the methods of one graph.

    Attributes:
        producers: value → index of the node that makes it, and the output slot.
        uses: value → its uses, in the order in which they were added; none that is empty.
        known_order: the last result of ``topological_order``; every change here drops it.
    """

    def __init__(self) -> None:
        self.producers: dict[str, tuple[int, int]] = {}
        self.uses: dict[str, dict[Use, None]] = {}
        self.known_order: tuple[int, ...] | None = None

    def add_outputs(self, node: OperatorCall) -> None:
        """Record that the node makes its outputs."""
        self.known_order = None
        for slot, output in enumerate(node.outputs):
            if output:
                self.producers[output] = node.index, slot

    def remove_outputs(self, node: OperatorCall) -> None:
        """Record that no node makes the node's outputs any more."""
        self.known_order = None
        for output in node.outputs:
            if output:
                del self.producers[output]

    def rename_output(self, node: OperatorCall, old: str, new: str) -> None:
        """Make the node produce ``new`` instead of ``old``, without a look at its other outputs."""
        self.known_order = None
        index, slot = self.producers.pop(old)
        node.exchange_output(slot, new)
        self.producers[new] = index, slot

    def add_uses(self, node: OperatorCall) -> None:
        """Record that the node uses its inputs, implicit ones too."""
        for value, use in _uses_of(node):
            self.add_use(value, use)

    def remove_uses(self, node: OperatorCall) -> None:
        """Record that the node uses nothing any more."""
        for value, use in _uses_of(node):
            self.remove_use(value, use)

    def add_use(self, value: str, use: Use) -> None:
        """Record a use, unless the value is "", an optional input that is left out."""
        self.known_order = None
        if value:
            self.uses.setdefault(value, {})[use] = None

    def remove_use(self, value: str, use: Use) -> None:
        """Remove a use that :meth:`add_use` recorded."""
        self.known_order = None
        if value:
            uses = self.uses[value]
            del uses[use]
            if not uses:
                del self.uses[value]

    def take_uses(self, value: str) -> Iterable[Use]:
        """Remove and return all uses of the value."""
        self.known_order = None
        return self.uses.pop(value, ())


def _uses_of(node: OperatorCall) -> Iterable[tuple[str, Use]]:
    for slot, value in enumerate(polled_parts(node.inputs)):
        if value:
            yield value, Use(node.index, slot)
    for value in node.implicit_inputs:
        if value:
            yield value, Use(node.index, -1)
