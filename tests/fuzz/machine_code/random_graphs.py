"""Random graphs that can be compiled, of any number of nodes of all kinds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.fuzz.machine_code.elementwise_nodes import ELEMENTWISE
from tests.fuzz.machine_code.graph_maker import F16, F32, GraphMaker, UnfitError
from tests.fuzz.machine_code.moving_nodes import MOVING
from tests.fuzz.machine_code.product_nodes import PRODUCTS
from tests.fuzz.machine_code.quantized_nodes import QUANTIZED

_MAKERS: dict[Callable[[GraphMaker], None], int] = {
    **ELEMENTWISE, **MOVING, **PRODUCTS, **QUANTIZED
}  # fmt: skip
#: So often is a node tried that does not fit what there is.
_TRIES = 8
_MOST_NODES = 7


def random_graph(seed: int) -> GraphMaker:
    """The graph of ``seed``, with at least one node."""
    graph = GraphMaker(seed, run_count=1 + seed % 3)
    choose = graph.choose
    for _ in range(choose.randint(1, 2)):
        rank = choose.choice((1, 2, 2, 3, 3, 4, 4, 0))
        most = (70, 70, 70, 33, 17)[rank]
        kind = choose.choice((F32, F32, F32, F32, F16, np.int64, np.int32, np.uint8, np.bool_))
        graph.entered(graph.fresh(kind, [graph.size(most=most) for _ in range(rank)],
                                  is_constant=False))  # fmt: skip
    if choose.random() < 0.3:
        shape = [graph.size(most=3), graph.size(most=17, is_fixed=True)]
        sides = [graph.size(most=17), graph.size(most=17)]
        graph.entered(graph.fresh(F32, [*shape, *sides], is_constant=False))
    wished = choose.randint(1, _MOST_NODES)
    tries = 0
    while not graph.nodes or (len(graph.nodes) < wished and tries < _TRIES * wished):
        tries += 1
        (make,) = choose.choices(list(_MAKERS), list(_MAKERS.values()))
        try:
            make(graph)
        except UnfitError:
            continue
    return graph
