"""Outputs that come out sparse, as in onnxruntime: a model's own sparse constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ortpkg.graph.graph import Graph
from ortpkg.graph.initializers import SparseInitializer
from ortpkg.kernels.op_kernel import Value
from ortpkg.session.sparse_tensor import SparseCooView, SparseTensor


def sparse_outputs_of(graph: Graph) -> dict[int, SparseTensor]:
    """Position among the outputs → the constant that comes out there, without zeros.

    The engine computes with dense weights; no operator that it has makes a sparse tensor.
    """
    found: dict[int, SparseTensor] = {}
    for position, name in enumerate(graph.outputs):
        constant = graph.initializers.get(name)
        if isinstance(constant, SparseInitializer) and not graph.is_input(
            name
        ):  # an input may be fed
            flat = constant.numpy().reshape(-1)
            places = np.flatnonzero(flat)
            found[position] = SparseTensor(
                flat[places], constant.shape, SparseCooView(places.astype(np.int64))
            )
    return found


def with_sparse_outputs(
    results: list[Value], sparse: Mapping[int, SparseTensor], positions: Sequence[int] | None
) -> list[Value]:
    """``results`` with their sparse ones put in at ``positions`` (None: all outputs)."""
    chosen = range(len(results)) if positions is None else positions
    return [sparse.get(position, result) for position, result in zip(chosen, results, strict=True)]
