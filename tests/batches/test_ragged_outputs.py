"""Outputs whose first dimension is not the rows': each row gets its own, whatever the counts."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from ortpkg.cli.app import run

#: Gives the numbers above 0: three rows may have three of them, all in one row.
DETECTOR = """
<ir_version: 8, opset_import: ["" : 17]>
detector (float[n, 2] x) => (float[%s, 2] found)
{
   zero = Constant <value = float {0.0}> ()
   axis = Constant <value = int64[1] {-1}> ()
   all_axes = Constant <value = int64[2] {-1, 1}> ()
   pairs = Concat <axis = 1> (x, x)
   flat = Reshape (x, axis)
   is_there = Greater (flat, zero)
   kept = Compress (flat, is_there)
   column = Reshape (kept, all_axes)
   found = Concat <axis = 1> (column, column)
}
"""


def detector(folder: Path, first: str = "d") -> Path:
    path = folder / "detector.onnx"
    onnx.save(onnx.parser.parse_model(DETECTOR % first), path)
    return path


def batch(model: Path, rows: object, out: Path, *more: str) -> int:
    source = out.with_suffix(".npy")
    np.save(source, np.asarray(rows, np.float32))
    words = ["batch", str(model), "--input", str(source), "--output", str(out), "--in-process"]
    return run([*words, "--backend", "embedded", "--batch-size", "3", *more])


ROWS = [[[1, 2], [0, 0], [0, 3]], [[0, 0], [0, 0], [0, 0]], [[1, 2], [3, 0], [0, 0]]]
EXPECTED = [[[1, 1], [2, 2]], [], [[3, 3]]]


def read_lines(out: Path) -> list[object]:
    lines = (out / "part-00000.jsonl").read_text().splitlines()
    return [json.loads(line)["found"] for line in lines]


def test_as_many_detections_as_rows_stay_with_their_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert batch(detector(tmp_path), ROWS[0], out, "--format", "jsonl") == 0
    assert read_lines(out) == EXPECTED
    assert "1 a run, since output 'found' has no dimension of rows" in capsys.readouterr().err


def test_rows_without_any_detection_have_an_empty_list(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert batch(detector(tmp_path), ROWS[1], out, "--format", "jsonl") == 0
    assert read_lines(out) == [[], [], []]


def test_csv_has_them_as_json(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert batch(detector(tmp_path), ROWS[0], out, "--format", "csv") == 0
    with (out / "part-00000.csv").open() as file:
        assert [json.loads(row["found"]) for row in csv.DictReader(file)] == EXPECTED


def test_npy_refuses_what_is_ragged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert batch(detector(tmp_path), ROWS[0], tmp_path / "out") == 2
    assert "'found' has rows of different shapes" in capsys.readouterr().err


def test_what_nobody_can_tell_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = detector(tmp_path, "unk__0")
    assert batch(model, ROWS[0], tmp_path / "out") == 2
    assert "--batch-axis found=none that all of the output belongs to the row" in (
        capsys.readouterr().err
    )
    said = ("--format", "jsonl", "--batch-axis", "found=none")
    assert batch(model, ROWS[0], tmp_path / "out", *said) == 0
    assert read_lines(tmp_path / "out") == EXPECTED


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("found", "it takes OUTPUT=0"),
        ("found=1", "it takes OUTPUT=0"),
        ("fond=0", "the model has no output 'fond' (did you mean 'found'?)"),
    ],
)
def test_a_batch_axis_that_does_not_fit_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str, message: str
) -> None:
    assert batch(detector(tmp_path), ROWS[0], tmp_path / "out", "--batch-axis", given) == 2
    assert message in capsys.readouterr().err


def test_inference_finds_rows_that_have_no_name(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> double (float[?, 2] x) => (float[?, 2] y) { y = Add (x, x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "double.onnx")
    out = tmp_path / "out"
    assert batch(tmp_path / "double.onnx", ROWS[0], out) == 0
    np.testing.assert_array_equal(np.load(out / "part-00000/y.npy"), np.multiply(ROWS[0], 2))


PAIRS = "(float[n, 2] x) => (float[n, %s] y) { z = Transpose (x) y = MatMul (x, z) }"
KEPT = DETECTOR.partition("{\n")[2].rpartition("}")[0]


def saved(folder: Path, graph: str) -> Path:
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {graph}'), path)
    return path


@pytest.mark.parametrize("second", ["n", "m", "?"])
def test_a_row_compared_with_all_others_is_run_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], second: str
) -> None:
    out = tmp_path / "out"
    assert batch(saved(tmp_path, PAIRS % second), [[1, 2], [3, 4], [5, 6]], out) == 0
    np.testing.assert_array_equal(np.load(out / "part-00000/y.npy"), [[5], [25], [61]])
    reason = "1 a run, since output 'y' counts rows in another dimension, too"
    assert reason in capsys.readouterr().err


def test_rows_that_are_columns_too_are_run_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = saved(tmp_path, "(float[n, n] x) => (float[n, n] y) { y = MatMul (x, x) }")
    assert batch(model, np.eye(3), tmp_path / "out") == 5
    assert "input 'x' counts rows in another dimension, too" in capsys.readouterr().err


@pytest.mark.parametrize(
    "output",
    [
        f"(float[d, 2] found) {{ {KEPT} }}",
        "(float[5, 2] found) { t = Concat <axis = 0> (x, x) found = Slice (t, zero, five) }",
        "(float found) { found = ReduceSum <keepdims = 0> (x) }",
        "(float[1, 2] found) { found = ReduceMean <axes = [0]> (x) }",
    ],
)
def test_entries_of_a_fixed_run_that_are_no_rows_are_divided_among_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    constants = (
        "{ zero = Constant <value = int64[1] {0}> () five = Constant <value = int64[1] {5}> ()"
    )
    graph = output if "Slice" not in output else output.replace("{", constants, 1)
    assert batch(saved(tmp_path, f"(float[3, 2] x) => {graph}"), ROWS[0], tmp_path / "out") == 2
    message = "--batch-size 3: the model takes 3 rows a run, but output 'found' has no dimension"
    assert message in capsys.readouterr().err


def test_a_size_that_is_the_batch_size_by_chance_stays_with_the_row(tmp_path: Path) -> None:
    graph = (
        "(float[n, 2] x, float[3, 2] a) => (float[n, 3] y) { b = Transpose (a) y = MatMul (x, b) }"
    )
    source, out = tmp_path / "rows.jsonl", tmp_path / "out"
    anchors = [[1, 0], [0, 1], [1, 1]]
    rows = [{"x": row, "a": anchors} for row in ([1, 2], [3, 4], [5, 6])]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["batch", str(saved(tmp_path, graph)), "--input", str(source), "--output", str(out)]
    assert run([*words, "--in-process", "--backend", "embedded", "--batch-size", "3"]) == 0
    lines = (out / "part-00000.jsonl").read_text().splitlines()
    assert [json.loads(line)["y"] for line in lines] == [[1, 2, 3], [3, 4, 7], [5, 6, 11]]


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (
            "(float[n, 2] x) => (seq(float[n, 1]) y) { y = SplitToSequence <axis = 1> (x) }",
            "output 'y' is 'seq(tensor(float))': rows can have tensors alone",
        ),
        (
            "(float[n, 2] x) => (float[n, 2] row_id) { row_id = Neg (x) }",
            "the model has an output 'row_id'",
        ),
    ],
)
def test_outputs_that_no_row_can_have_end_it_before_it_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], graph: str, message: str
) -> None:
    assert batch(saved(tmp_path, graph), ROWS[0], tmp_path / "out") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
