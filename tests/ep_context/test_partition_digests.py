"""Digests of a partition's weights, which are hashed where they lie."""

from __future__ import annotations

import hashlib
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from ortpkg.graph.graph import Graph
from ortpkg.graph.onnx_reader import load_model
from ortpkg.runtime.ep_context import partition_digests


def _graph_of(folder: Path, element_type: int, count: int, nbytes: int) -> Graph:
    codes = np.random.default_rng(0).integers(0, 256, nbytes).astype(np.uint8)
    (folder / "w.bin").write_bytes(codes.tobytes())
    weight = TensorProto(name="w", data_type=element_type, dims=[count])
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="w.bin")
    graph = helper.make_graph(
        [helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)],
        "weights",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [count])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return load_model(folder / "model.onnx").graph


@pytest.mark.parametrize(
    ("element_type", "count", "nbytes"),
    [
        (TensorProto.INT4, (7 << 20) + 3, (7 << 19) + 2),
        (TensorProto.BFLOAT16, 5 << 20, 10 << 20),
        (TensorProto.FLOAT8E4M3FN, 5 << 20, 5 << 20),
    ],
)
def test_weights_are_hashed_element_by_element_without_a_copy_of_all(
    tmp_path: Path, element_type: int, count: int, nbytes: int
) -> None:
    """The digest is that of earlier releases, by which contexts are found."""
    graph = _graph_of(tmp_path, element_type, count, nbytes)
    weight = graph.initializers["w"]
    tracemalloc.start()
    try:
        _, digest = partition_digests.partition_digests(graph)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    expected = hashlib.sha256(f"w\0{weight.element_type.name}\0{weight.shape}\0".encode())
    expected.update(weight.numpy().tobytes())
    assert digest == expected.hexdigest()
    assert peak < (12 << 20 if element_type == TensorProto.INT4 else 1 << 20)
