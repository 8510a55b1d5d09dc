"""The rule by which a provider that nobody named takes a model: most of its work, or nothing.

What a library does not take goes back and forth between it and the next provider, and each way
costs more than many a node. A whole model is worth compiling, pieces of one are not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ortpkg.graph.graph import Graph
from ortpkg.providers.node_work import whole_work

#: The share of the work that claims are worth, at least.
SMALLEST_SHARE = 0.75
#: What entering a library once more costs, as operations: some 50 microseconds.
_OPERATIONS_PER_BORDER = 250_000
#: Why a provider left all nodes.
TOO_LITTLE = (
    f"it would take less than {SMALLEST_SHARE:.0%} of the model's work, and nobody named it"
)


def takes_most(graph: Graph, claims: Sequence[Collection[int]]) -> bool:
    """Return True where ``claims`` are three quarters of the graph's work, borders subtracted.

    Work is counted by :mod:`ortpkg.providers.node_work`: operations by the sizes of values, and a
    constant for calling a node. The first claim costs no border.

    Args:
        graph: the main graph of a model.
        claims: nodes by index, of each claim.
    """
    work = {node.index: whole_work(graph, node) for node in graph.nodes}
    claimed = sum(work[index] for claim in claims for index in claim)
    borders = max(len(claims) - 1, 0) * _OPERATIONS_PER_BORDER
    return claimed > 0 and claimed - borders >= SMALLEST_SHARE * sum(work.values())
