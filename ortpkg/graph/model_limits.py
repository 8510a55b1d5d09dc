"""Bounds on a model file, checked before anything of it is run.

Models may come from untrusted sources.
"""

from __future__ import annotations

from typing import NamedTuple

_GIB = 1 << 30


class ModelLimits(NamedTuple):
    """The largest allowed model; past a limit the reader raises a ModelError that names it.

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
