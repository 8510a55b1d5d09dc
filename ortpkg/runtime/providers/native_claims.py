"""Finds the nodes that a native library takes.

Only compiling tells for certain. So each maximal sub-graph is tried, then again without the nodes
that were refused, until the library refuses nothing or has refused too often.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from ortpkg.foundations.errors import quoted
from ortpkg.graph.graph import Graph
from ortpkg.runtime.ep_context.claim_refusals import ClaimRefusal
from ortpkg.runtime.providers.claim_blame import ClaimBlame, first_made, operator_of
from ortpkg.runtime.providers.execution_provider import ComputeCapability, GraphViewer
from ortpkg.runtime.providers.library_traits import Operator
from ortpkg.runtime.providers.native_library import NativeLibrary
from ortpkg.runtime.providers.partition_border import PartitionBorder
from ortpkg.runtime.providers.supported_subgraphs import subgraph_claim, supported_subgraphs

#: Compiles a claim; returns None if the library took all of it.
Attempt = Callable[[Graph, ComputeCapability], ClaimRefusal | None]


#: Most refusals by a library in one session; after these it is asked no more.
MOST_REFUSALS = 16
#: The same if nobody named the library's provider.
MOST_REFUSALS_UNNAMED = 4


class NativeClaims:
    """Claims of one session on one library.

    Attributes:
        blame: finds the nodes to blame for an error of the library.
        reasons: why nodes were left, each once, in the order in which they were found.
        most_refusals: number of refusals after which the library is asked no more.
        reasons_by_node: why nodes of the last graph were left, by their index.
    """

    def __init__(self, ep_name: str, library: NativeLibrary) -> None:
        self._traits = library.traits
        self._border = PartitionBorder(library.traits.border_types)
        self.blame = ClaimBlame(ep_name=ep_name, library=library, border=self._border)
        self.reasons: dict[str, None] = {}
        self.reasons_by_node: dict[int, str] = {}
        self.most_refusals = MOST_REFUSALS
        self._refusals = 0
        #: Operators that the library said it lacks: it is not asked again.
        self._unknown: set[Operator] = set()

    def candidates(self, viewer: GraphViewer) -> set[int]:
        """Return the nodes that the library may take.

        These are all but the nodes that it lacks, gets wrong, or that bring foreign values in.
        """
        faults = self._traits.faults(viewer.graph)
        self.reasons |= dict.fromkeys(faults.values())
        self.reasons_by_node = dict(faults)
        candidates = {
            node.index
            for node in viewer.nodes
            if operator_of(node) not in self._unknown and node.index not in faults
        }
        return self._within_border(viewer, candidates)

    def subgraphs(
        self,
        viewer: GraphViewer,
        supported: Collection[int],
        make_name: Callable[[], str],
        attempt: Attempt,
    ) -> Iterator[ComputeCapability]:
        """Yield the largest sub-graphs of ``supported`` that the library takes."""
        waiting = supported_subgraphs(viewer, supported)
        while waiting:
            group = waiting.pop(0)
            if not any(viewer.graph.node(index).op_type != "Constant" for index in group):
                continue
            claim = subgraph_claim(viewer.graph, group, make_name())
            if claim is None:
                continue
            if self._refusals >= self.most_refusals:
                self._give_up(group)
                continue
            refused = self._refused(viewer.graph, claim, attempt)
            if not refused:
                yield claim
            elif len(refused) < len(group):
                rest = self._within_border(viewer, set(group) - refused)
                waiting[:0] = supported_subgraphs(viewer, rest)

    def _refused(self, graph: Graph, claim: ComputeCapability, attempt: Attempt) -> set[int]:
        """Return the indices of the nodes that the library refuses; none if it took all."""
        refusal = attempt(graph, claim)
        if refusal is None:
            return set()
        self._refusals += 1
        self._unknown |= refusal.unknown
        self.reasons |= dict.fromkeys(refusal.reasons)
        makes = refusal.makes
        refused = {index for index in claim.node_indices if first_made(graph.node(index)) in makes}
        self.reasons_by_node |= dict.fromkeys(refused, "; ".join(refusal.reasons))
        return refused

    def _give_up(self, group: Collection[int]) -> None:
        reason = f"it has refused {self._refusals} parts of the model, and is asked no more"
        self.reasons[reason] = None
        self.reasons_by_node |= dict.fromkeys(group, reason)

    def _within_border(self, viewer: GraphViewer, nodes: set[int]) -> set[int]:
        """Return those of ``nodes`` whose values may cross their partition's border."""
        while foreign_values := self._border.foreign_values(viewer, nodes):
            for value in foreign_values.values():
                reason = f"it cannot take or give values of the type of {quoted(value)}"
                self.reasons[reason] = None
            self.reasons_by_node |= dict.fromkeys(
                foreign_values, "it cannot take or give values of such types"
            )
            nodes = nodes - set(foreign_values)
        return nodes
