"""Bounds on what a model file may ask of us before anything of it is run.

Models come from strangers.
"""

from __future__ import annotations

from typing import NamedTuple

_GIB = 1 << 30


class ModelLimits(NamedTuple):
    """The most that a model may hold; past a limit the reader raises a ModelError that says which.

    Attributes:
        model_nbytes: of the ONNX file itself, without external data. Protobuf allows no message of
            2 GiB.
        node_count: of all graphs together, with functions inlined.
        inlined_node_count: of one call of a function, with the functions that it calls inlined.
        subgraph_depth: graphs within graphs, and functions calling functions.
        dense_nbytes: of all sparse initializers together when made dense.
    """

    model_nbytes: int = 2 * _GIB - 1
    node_count: int = 2_000_000
    inlined_node_count: int = 200_000
    subgraph_depth: int = 32
    dense_nbytes: int = 2 * _GIB
