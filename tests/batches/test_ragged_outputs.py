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
