"""Decides whether a default provider takes a model: most of its work, or nothing.

Values cross between providers wherever a node is left out, and a crossing costs more than most
nodes. So a whole model is worth compiling, and scattered pieces of one are not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ortpkg.graph.graph import Graph
from ortpkg.runtime.providers.node_work import whole_work

#: Smallest share of the model's work, and of its nodes, that a default provider takes.
SMALLEST_SHARE = 0.75
SMALLEST_SHARE_OF_NODES = 0.5
MOST_PARTITIONS = 4
#: Cost of one more partition, counted in operations: about 50 microseconds.
_OPERATIONS_PER_BORDER = 250_000
#: Reason for leaving the whole model.
TOO_LITTLE = (
    f"it would take less than {SMALLEST_SHARE:.0%} of the model's work, or more than"
    f" {MOST_PARTITIONS} pieces of it, and nobody named it"
)
#: Reason for leaving one piece.
TOO_SMALL = "the piece is worth less than the way there and back, and nobody named the provider"


def worth_taking(graph: Graph, claims: Sequence[Collection[int]]) -> tuple[int, ...]:
    """Return positions of the claims to take; none if they are too little of the model.

    A claim is taken if it is more work than a partition costs; the largest one always is. Together
    they must be three quarters of the model's work, less the cost of all partitions but one, and
    half of its nodes, in at most four partitions. :mod:`ortpkg.runtime.providers.node_work` counts
    work: operations by the sizes of values, and a constant per node. The share of nodes is a second
    condition because sizes known only at run time are guessed.

    Args:
        graph: the main graph of a model.
        claims: the node indices of each claim.
    """
    work = {node.index: whole_work(graph, node) for node in graph.nodes}
    works = [sum(work[index] for index in claim) for claim in claims]
    worthwhile = [
        position
        for position, claim_work in enumerate(works)
        if claim_work >= _OPERATIONS_PER_BORDER or claim_work == max(works)
    ]
    borders = max(len(worthwhile) - 1, 0) * _OPERATIONS_PER_BORDER
    share = (sum(works[position] for position in worthwhile) - borders) / max(sum(work.values()), 1)
    nodes = sum(len(claims[position]) for position in worthwhile)
    is_most = (
        share >= SMALLEST_SHARE
        and nodes >= SMALLEST_SHARE_OF_NODES * len(work)
        and len(worthwhile) <= MOST_PARTITIONS
    )
    return tuple(worthwhile) if is_most else ()
