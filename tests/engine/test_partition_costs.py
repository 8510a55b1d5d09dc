"""How many operations a node is counted as, by which stated costs are multiplied."""

from __future__ import annotations

import onnx.parser
import pytest

from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_types
from ortpkg.runtime.providers.node_work import operation_count

SIZES = (
    "float[2,3] x, float[3,5] w, float[5,3] t, float[2,4,8,8] image, "
    "float[6,2,3,3] kernel, float[4,1,1,1] point, float[6] bias"
)


@pytest.mark.parametrize(
    ("node", "made", "operations"),
    [
        ("Add(x, x)", "float[2,3]", 6),
        ("ReduceSum(image)", "float", 512),  # all that it reads
        ("MatMul(x, w)", "float[2,5]", 2 * 10 * 3),
        ("Gemm<transB = 1>(x, t)", "float[2,5]", 2 * 10 * 3),
        ("Gemm<transA = 1>(t, t)", "float[3,3]", 2 * 9 * 5),
        ("Conv<group = 2>(image, kernel)", "float[2,6,6,6]", 2 * 432 * 18),
        ("Conv<group = 4>(image, point)", "float[2,4,8,8]", 2 * 512),
        ("Conv<group = 2>(image, kernel, bias)", "float[2,6,6,6]", 2 * 432 * 18),
    ],
)
def test_products_count_two_per_step_of_a_sum_and_all_else_one_per_element(
    node: str, made: str, operations: int
) -> None:
    text = f'<ir_version: 10, opset_import: ["" : 21]> g ({SIZES}) => ({made} y) {{ y = {node} }}'
    model = load_model(onnx.parser.parse_model(text))
    infer_types(model)
    (only,) = model.graph.nodes

    assert operation_count(model.graph, only) == operations
