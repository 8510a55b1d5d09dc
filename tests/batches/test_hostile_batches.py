"""Inputs that state too much, outputs that were changed, limits of runs, and no rows at all."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg.cli.app import run
from ortpkg.foundations.errors import UsageError
from ortpkg.scale.batches.batch_folder import OWN, BatchFolder
from ortpkg.scale.batches.csv_rows import csv_header
from ortpkg.scale.batches.input_files import RowFormat
from ortpkg.scale.batches.json_rows import read_json_rows
from ortpkg.scale.batches.npy_rows import npy_size, read_npy_rows
from ortpkg.scale.batches.output_parts import write_part
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.batches.rows import Rows
from ortpkg.scale.batches.text_rows import MOST_COLUMNS
from tests.cli.conftest import DIGITS

DOUBLE = '<ir_version: 8, opset_import: ["" : 17]> double (float[n, 2] x) => (float[n, 2] y) { y = Add (x, x) }'
ENDLESS = """
<ir_version: 8, opset_import: ["" : 17]>
endless (float[n, 2] x) => (float[n, 2] y)
{
   turns = Constant <value = int64 {1000000000}> ()
   yes = Constant <value = bool {1}> ()
   y = Loop (turns, yes, x) <body = turn (int64 i, bool go, float[n, 2] before)
      => (bool more, float[n, 2] after)
      {
         more = Identity (go)
         after = Neg (before)
      }>
}
"""


def batch(folder: Path, rows: object, *more: str, model: str = DOUBLE) -> int:
    path = folder / "model.onnx"
    if not path.exists():  # its time tells it from another
        onnx.save(onnx.parser.parse_model(model), path)
        np.save(folder / "rows.npy", np.asarray(rows, np.float32))
    words = [
        "batch",
        str(path),
        "--input",
        str(folder / "rows.npy"),
        "--output",
        str(folder / "out"),
    ]
    return run([*words, "--in-process", "--backend", "embedded", "--part-rows", "2", *more])


def npy_header(path: Path, shape: tuple[int, ...], kind: str) -> Path:
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": kind, "fortran_order": False, "shape": shape}
        )
    return path


@pytest.mark.parametrize(
    ("shape", "kind", "message"),
    [
        ((10**12, 0), "<f4", "1000000000000 rows without a single element"),
        ((10**12,), "<U0", "1000000000000 rows without a single element"),
        ((5, 10**12), "|S0", "5000000000000 texts without a single character"),
    ],
)
def test_an_npy_file_cannot_state_rows_without_end(
    tmp_path: Path, shape: tuple[int, ...], kind: str, message: str
) -> None:
    path = npy_header(tmp_path / "rows.npy", shape, kind)
    with pytest.raises(UsageError, match=f"it states {message}"):
        npy_size(path)


def test_texts_without_characters_are_rows(tmp_path: Path) -> None:
    path = npy_header(tmp_path / "rows.npy", (3,), "<U0")
    part = Part(number=0, files=(str(path),), first_row=0, file_row=1, count=2)
    assert list(read_npy_rows(part).columns["data"]) == ["", ""]


def test_a_csv_file_has_a_bounded_number_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(",".join(f"c{place}" for place in range(MOST_COLUMNS)) + "\n")
    assert len(csv_header(path)) == MOST_COLUMNS
    path.write_text(",".join(f"c{place}" for place in range(1_000_000)) + "\n")
    with pytest.raises(UsageError, match=r"has 1000000 columns, and 16384 may be"):
        csv_header(path)


def json_part(path: Path, records: list[dict[str, int]]) -> Part:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    nbytes = path.stat().st_size
    return Part(
        number=0, files=(str(path),), first_row=0, file_row=0, count=len(records), nbytes=nbytes
    )


def test_json_lines_have_a_bounded_number_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    wide = {f"c{index}": 1 for index in range(MOST_COLUMNS + 1)}
    rows = read_json_rows(json_part(path, [wide, {"x": 1}]))
    assert (list(rows.columns), rows.row_ids.tolist()) == (["x"], [1])
    assert "it has 16385 columns, and 16384 may be" in rows.errors[0].reason
    half = MOST_COLUMNS // 2 + 1
    different = [{f"c{row}.{index}": 1 for index in range(half)} for row in range(2)]
    with pytest.raises(UsageError, match="have more than 16384 columns together"):
        read_json_rows(json_part(path, different))


@pytest.mark.parametrize("kind", ["npy", "jsonl"])
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_part_that_was_cut_or_changed_is_run_again(
    tmp_path: Path, kind: str, damage: str
) -> None:
    rows = np.arange(10).reshape(5, 2)
    assert batch(tmp_path, rows, "--batch-size", "2", "--format", kind) == 0
    part = tmp_path / "out/part-00001"
    part = part / "y.npy" if kind == "npy" else part.with_suffix(".jsonl")
    before = part.read_bytes()
    part.write_bytes(before[:-3] if damage == "cut" else before[:-3] + b"\0" + before[-2:])
    others = (tmp_path / "out/part-00000").with_suffix("" if kind == "npy" else ".jsonl")
    written_ns = others.stat().st_mtime_ns
    assert batch(tmp_path, rows, "--format", kind, "--resume") == 0
    assert hashlib.sha256(part.read_bytes()).digest() == hashlib.sha256(before).digest()
    assert others.stat().st_mtime_ns == written_ns


def put_folder_with_pipe(path: Path) -> None:
    path.mkdir()
    os.mkfifo(path / "y.npy")


@pytest.mark.skipif(sys.platform == "win32", reason="it has other pipes")
@pytest.mark.parametrize("put", [os.mkfifo, put_folder_with_pipe, "link"])
@pytest.mark.parametrize("name", ["part-00001.jsonl", f"{OWN}/parts/part-00001"])
def test_what_no_batch_writes_is_no_part(
    tmp_path: Path, put: Callable[[Path], None] | str, name: str
) -> None:
    rows = np.arange(10).reshape(5, 2)
    assert batch(tmp_path, rows, "--format", "jsonl") == 0
    part = tmp_path / "out/part-00001.jsonl"
    content = part.read_bytes()
    path = tmp_path / "out" / name
    path.rename(tmp_path / "moved")
    if callable(put):
        put(path)
    else:
        path.symlink_to(tmp_path / "moved")
    if name.startswith(OWN) and path.is_dir():
        path = path.rename(tmp_path / "folder")  # only a batch's own part may be one
    assert batch(tmp_path, rows, "--format", "jsonl", "--resume") == 0
    assert part.read_bytes() == content
    assert part.is_file()
    assert not part.is_symlink()


@pytest.mark.skipif(sys.platform == "win32", reason="it has other pipes")
def test_a_job_is_read_from_a_plain_file_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert batch(tmp_path, np.zeros((2, 2))) == 0
    job = tmp_path / "out" / OWN / "job.json"
    job.unlink()
    os.mkfifo(job)
    assert batch(tmp_path, [], "--resume") == 2
    assert "it is no plain file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "errors", "runs"])
def test_what_a_link_leads_to_stays(tmp_path: Path, name: str) -> None:
    precious = tmp_path / "elsewhere"
    (precious / "errors").mkdir(parents=True)
    (precious / "errors/kept").write_text("kept")
    out = tmp_path / "out"
    own = out / OWN / name
    own.parent.mkdir(parents=True)
    own.symlink_to(precious if not name else precious / "errors", target_is_directory=True)
    with (
        pytest.raises(UsageError, match="is a link, which a batch neither follows nor removes"),
        BatchFolder(out, RowFormat.CSV).new_job({}),
    ):
        pass
    assert (precious / "errors/kept").read_text() == "kept"


def test_cells_of_csv_are_no_formulas(tmp_path: Path) -> None:
    texts = ["=1+1", "+cmd", "-x", "@SUM(A1)", "\tx", "-1.5e3", "plain", "a=b"]
    rows = Rows(row_ids=np.arange(8), columns={"=t": texts, "n": np.arange(-4, 4)})
    write_part(tmp_path / "part.csv", rows, RowFormat.CSV, tmp_path)
    with (tmp_path / "part.csv").open(newline="") as file:
        records = list(csv.DictReader(file))
    assert [record["'=t"] for record in records] == [
        "'=1+1", "'+cmd", "'-x", "'@SUM(A1)", "'\tx", "-1.5e3", "plain", "a=b",
    ]  # fmt: skip
    assert [record["n"] for record in records] == [str(number) for number in range(-4, 4)]


@pytest.mark.parametrize(
    "sign", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"]
)
def test_no_sign_before_a_cell_makes_it_a_formula(tmp_path: Path, sign: str) -> None:
    rows = Rows(row_ids=np.arange(1), columns={f"{sign}h": [f"{sign}1+1"]})
    write_part(tmp_path / "part.csv", rows, RowFormat.CSV, tmp_path)
    with (tmp_path / "part.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["row_id", f"'{sign}h"], ["0", f"'{sign}1+1"]]


def test_a_carriage_return_in_a_cell_begins_no_record(tmp_path: Path) -> None:
    rows = Rows(row_ids=np.arange(2), columns={"t": ["x\r=1+1", "x\n=1+1"]})
    write_part(tmp_path / "part.csv", rows, RowFormat.CSV, tmp_path)
    content = (tmp_path / "part.csv").read_bytes()
    assert content == b'row_id,t\n0,"x\r=1+1"\n1,"x\n=1+1"\n'


def test_an_input_without_rows_gives_an_output_without_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert batch(tmp_path, np.zeros((0, 2))) == 0
    assert "0 rows in" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == [OWN]


def test_a_run_has_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = np.zeros((2, 2))
    assert batch(tmp_path, rows, "--batch-size", "1", "--timeout", "200ms", model=ENDLESS) == 5
    assert "the run passed its time limit of 0.2 s" in capsys.readouterr().err
    listed = tmp_path / "failed.jsonl"
    out = ("--batch-size", "1", "--timeout", "200ms", "--errors", str(listed))
    (tmp_path / "out" / OWN / "job.json").unlink()
    assert batch(tmp_path, rows, *out, model=ENDLESS) == 0
    assert [json.loads(line)["row_id"] for line in listed.read_text().splitlines()] == [0, 1]


def test_a_run_has_a_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((2, 1, 8, 8), np.float32))
    words = ["batch", str(DIGITS), "--input", str(tmp_path / "rows.npy"), "--in-process"]
    more = ["--backend", "embedded", "--batch-size", "1", "--memory-limit", "1.5kB"]
    assert run([*words, "--output", str(tmp_path / "out"), *more]) == 5
    assert "memory limit of 1.5 kB" in capsys.readouterr().err


def test_parts_hold_a_note_of_their_content(tmp_path: Path) -> None:
    folder = BatchFolder(tmp_path / "out", RowFormat.CSV)
    part = Part(number=0, files=("rows",), first_row=0, file_row=0, count=1)
    with folder.new_job({}):
        folder.write(part, Rows(row_ids=np.array([0]), columns={"y": np.ones(1)}))
    content = (tmp_path / "out/part-00000.csv").read_bytes()
    noted = (tmp_path / "out" / OWN / "parts/part-00000").read_text()
    assert noted == f"{hashlib.sha256(content).hexdigest()} {len(content)} \n"
