"""Whether the first dimension of an output is rows: by names, then by inference."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest

from ortpkg.graph.model_signature import read_model_signature
from ortpkg.package.formats.pipeline import ComponentStep, Pipeline
from ortpkg.package.package_info import ValueInfo
from ortpkg.selection.measuring.batch_times import can_be_joined
from ortpkg.selection.measuring.row_axes import RowAxis, row_axes

ROWS, ONE, WHOLE, UNKNOWN = RowAxis.ROWS, RowAxis.ONE, RowAxis.WHOLE, RowAxis.UNKNOWN
MIXED = RowAxis.MIXED


def save(folder: Path, graph: str, name: str = "model") -> Path:
    path = folder / f"{name}.onnx"
    text = f'<ir_version: 8, opset_import: ["" : 17, "acme" : 1]> model {graph}'
    onnx.save(onnx.parser.parse_model(text), path)
    return path


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ("(float[n, 2] x) => (float[n, 2] y) { y = Neg (x) }", ROWS),
        ("(float[n, 2] x) => (float[m, 2] y) { y = Neg (x) }", ROWS),
        ("(float[?, 2] x) => (float[?, 2] y) { y = Neg (x) }", ROWS),
        ("(float[?, 2] x) => (float[rows, 2] y) { y = Neg (x) }", ROWS),
        ("(float[?, 2] x, float[n, 2] z) => (float[?, 2] y) { y = Add (x, z) }", ROWS),
        ("(float[?, 2] x) => (float[2, ?] y) { y = Transpose (x) }", WHOLE),
        ("(float[n, k] x) => (float[k, n] y) { y = Transpose (x) }", WHOLE),
        ("(float[n, k] x) => (float[?, ?] y) { y = Transpose (x) }", WHOLE),
        ("(float[n, 2] x) => (float[?, 2] y) { y = Concat <axis = 0> (x, x) }", WHOLE),
        ("(float[n, 2] x) => (float[?, 2] y) { y = ReduceMean <axes = [0]> (x) }", ONE),
        ("(float[n, 2] x) => (int64[?, d] y) { z = NonZero (x) y = Transpose (z) }", UNKNOWN),
        ("(float[n, 2] x) => (int64[d, 2] y) { z = NonZero (x) y = Transpose (z) }", WHOLE),
        ("(float[n, 2] x) => (float[?, 2] y) { y = acme.Guess (x) }", UNKNOWN),
        ("(float[n, 2] x) => (float[d, 2] y) { y = acme.Guess (x) }", WHOLE),
        ("(float[n, 2] x) => (float[n, 2] y) { y = acme.Guess (x) }", ROWS),
        ("(float[1, 2] x) => (float[?, 2] y) { y = Neg (x) }", ONE),
        ("(float[n, 2] x) => (float[n, n] y) { y = acme.Guess (x) }", MIXED),
        ("(float[n, 2] x) => (float[n, k] y) { z = Transpose (x) y = MatMul (x, z) }", MIXED),
        ("(float[n, 2] x) => (float[n, ?] y) { z = Transpose (x) y = MatMul (x, z) }", MIXED),
        ("(float[?, 2] x) => (float[?, ?] y) { z = Transpose (x) y = MatMul (x, z) }", MIXED),
        ("(float[n, k] x) => (float[n, k] y) { y = Neg (x) }", ROWS),
        ("(float[n, k] x) => (float[n, j] y) { y = Neg (x) }", ROWS),
        ("(float[n, 2] x) => (float[n, j] y) { y = acme.Guess (x) }", ROWS),
    ],
)
def test_names_and_inference_tell(tmp_path: Path, graph: str, expected: RowAxis) -> None:
    path = save(tmp_path, graph)
    declared = read_model_signature(path)
    found = row_axes(declared.inputs, declared.outputs, {"": path})
    assert found == {"y": expected}


@pytest.mark.parametrize("second", ["n", "n*4", "2 * n", "(n+1)"])
def test_rows_are_counted_again_by_a_name_or_a_formula_of_it(second: str) -> None:
    x = ValueInfo(name="x", type="tensor(float)", shape=("n", 2))
    y = ValueInfo(name="y", type="tensor(float)", shape=("n", second))
    assert row_axes((x,), (y,), {"": None}) == {"y": MIXED}
    assert not can_be_joined((x,), (y,), {"": None})


def test_requests_whose_inputs_count_rows_twice_are_not_joined() -> None:
    x = ValueInfo(name="x", type="tensor(float)", shape=("n", "n"))
    y = ValueInfo(name="y", type="tensor(float)", shape=("n", 2))
    assert not can_be_joined((x,), (y,), {"": None})


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("(float[n, 2] h) => (float[?, 2] y) { y = Neg (h) }", ROWS),
        ("(float[n, 2] h) => (int64[n, 2] y) { z = NonZero (h) y = Transpose (z) }", UNKNOWN),
        ("(float[n, k] h) => (float[k, n] y) { y = Transpose (h) }", WHOLE),
    ],
)
def test_rows_are_followed_through_a_pipeline(
    tmp_path: Path, second: str, expected: RowAxis
) -> None:
    first = save(tmp_path, "(float[?, 2] x) => (float[?, 2] h) { h = Neg (x) }", "first")
    last = save(tmp_path, second, "second")
    given = ValueInfo(name="x", type="tensor(float)", shape=(None, 2))
    made = ValueInfo(name="y", type="tensor(float)", shape=(None, None))
    pipeline = Pipeline(
        schema_version=(1, 0),
        inputs=(given,),
        outputs=(made,),
        steps=(
            ComponentStep(component="first", inputs={"x": "x"}, outputs={"h": "h"}),
            ComponentStep(component="second", inputs={"h": "h"}, outputs={"y": "y"}),
        ),
    )
    models = {"first": first, "second": last}
    assert row_axes((given,), (made,), models, pipeline)["y"] is expected
