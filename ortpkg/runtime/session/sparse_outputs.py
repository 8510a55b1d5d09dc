"""Sparse outputs, as in onnxruntime: a model's own sparse constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ortpkg.graph.graph import Graph
from ortpkg.graph.initializers import SparseInitializer
from ortpkg.runtime.kernels.op_kernel import Value
from ortpkg.runtime.session.values.sparse_tensor import SparseCooView, SparseTensor


def sparse_outputs_of(graph: Graph) -> dict[int, SparseTensor]:
    """Return position among the outputs → the sparse constant that comes out there.

    The engine computes with dense weights; none of its operators makes a sparse tensor.
    """
    constants: dict[int, SparseTensor] = {}
    for position, name in enumerate(graph.outputs):
        constant = graph.initializers.get(name)
        if isinstance(constant, SparseInitializer) and not graph.is_input(
            name
        ):  # a feed may replace an input
            flat = constant.numpy().reshape(-1)
            indices = np.flatnonzero(flat)
            constants[position] = SparseTensor(
                flat[indices], constant.shape, SparseCooView(indices.astype(np.int64))
            )
    return constants


def with_sparse_outputs(
    results: list[Value], sparse: Mapping[int, SparseTensor], positions: Sequence[int] | None
) -> list[Value]:
    """Return ``results`` with the sparse ones put in at ``positions`` (None: all outputs)."""
    chosen = range(len(results)) if positions is None else positions
    return [sparse.get(position, result) for position, result in zip(chosen, results, strict=True)]
