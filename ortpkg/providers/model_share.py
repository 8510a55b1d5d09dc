"""The rule by which a provider that nobody named takes a model: most of its work, or nothing.

What a library does not take goes back and forth between it and the next provider, and each way
costs more than many a node. A whole model is worth compiling, pieces of one are not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ortpkg.graph.graph import Graph
from ortpkg.providers.node_work import whole_work

#: The share of the work that claims are worth, at least, and their share of the nodes.
SMALLEST_SHARE = 0.75
SMALLEST_SHARE_OF_NODES = 0.5
MOST_PARTITIONS = 4
#: What entering a library once more costs, as operations: some 50 microseconds.
_OPERATIONS_PER_BORDER = 250_000
#: Why a provider left all nodes.
TOO_LITTLE = (
    f"it would take less than {SMALLEST_SHARE:.0%} of the model's work, or more than"
    f" {MOST_PARTITIONS} pieces of it, and nobody named it"
)
#: Why it left a piece.
TOO_SMALL = "the piece is worth less than the way there and back, and nobody named the provider"


def worth_taking(graph: Graph, claims: Sequence[Collection[int]]) -> tuple[int, ...]:
    """Positions of the claims that are worth a call of a library; none where these are not most.

    A claim is worth it that is more work than a border costs; the largest always is. Together they
    are most of a model where they are three quarters of its work, borders but the first
    subtracted, and half of its nodes, in four partitions or fewer. Work is counted by
    :mod:`ortpkg.providers.node_work`: operations by the sizes of values, and a constant for calling
    a node. The share of nodes is asked for because sizes that only a run can tell are guessed.

    Args:
        graph: the main graph of a model.
        claims: nodes by index, of each claim.
    """
    work = {node.index: whole_work(graph, node) for node in graph.nodes}
    sums = [sum(work[index] for index in claim) for claim in claims]
    kept = [
        position
        for position, claimed in enumerate(sums)
        if claimed >= _OPERATIONS_PER_BORDER or claimed == max(sums)
    ]
    borders = max(len(kept) - 1, 0) * _OPERATIONS_PER_BORDER
    share = (sum(sums[position] for position in kept) - borders) / max(sum(work.values()), 1)
    nodes = sum(len(claims[position]) for position in kept)
    is_most = (
        share >= SMALLEST_SHARE
        and nodes >= SMALLEST_SHARE_OF_NODES * len(work)
        and len(kept) <= MOST_PARTITIONS
    )
    return tuple(kept) if is_most else ()
