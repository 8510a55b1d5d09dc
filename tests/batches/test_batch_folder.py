"""What a batch writes: parts that are there whole or not at all, and what it knows of itself."""

from __future__ import annotations

import csv
import datetime as dt
import json
import pickle
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.errors import UsageError
from ortpkg.scale.batches import output_parts
from ortpkg.scale.batches.batch_folder import (
    OWN,
    BatchFolder,
    error_line,
    read_job,
    verify_is_free,
)
from ortpkg.scale.batches.input_files import RowFormat
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.batches.rows import Column, RowError, Rows

TWO = np.array([4, 6])


def part(number: int = 0) -> Part:
    return Part(number=number, files=("rows",), first_row=0, file_row=0, count=2)


def rows(**columns: Column) -> Rows:
    return Rows(row_ids=TWO, columns=columns)


def new_folder(path: Path, kind: RowFormat, **job: Any) -> BatchFolder:
    """One whose batch runs as long as the test does."""
    folder = BatchFolder(path, kind)
    RUNNING.enter_context(folder.new_job(job))
    return folder


RUNNING = ExitStack()


@pytest.fixture(autouse=True)
def running() -> Iterator[None]:
    with RUNNING:
        yield


def test_json_lines_have_the_row_and_its_outputs(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "out", RowFormat.JSON_LINES)
    folder.write(part(), rows(y=np.array([[1.5], [2]], np.float32), text=["ü", None]))
    lines = (tmp_path / "out/part-00000.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"row_id": 4, "y": [1.5], "text": "ü"},
        {"row_id": 6, "y": [2.0], "text": None},
    ]


def test_csv_has_a_header_and_lists_as_json(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "out", RowFormat.CSV)
    folder.write(
        part(), rows(y=np.array([[1.5, 2], [3, 4]]), n=np.array([1, 2]), s=['a "b", c', "d"])
    )
    with (tmp_path / "out/part-00000.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["row_id", "y", "n", "s"],
            ["4", "[1.5, 2.0]", "1", 'a "b", c'],
            ["6", "[3.0, 4.0]", "2", "d"],
        ]


def test_npy_parts_are_folders_of_arrays(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "out", RowFormat.NPY)
    y = np.arange(6, dtype=np.float32).reshape(2, 3)
    folder.write(part(), rows(y=y, **{"../s": ["a", "bc"]}))
    made = tmp_path / "out/part-00000"
    assert sorted(each.name for each in made.iterdir()) == ["_s.npy", "row_id.npy", "y.npy"]
    np.testing.assert_array_equal(np.load(made / "y.npy"), y)
    assert np.load(made / "_s.npy").tolist() == ["a", "bc"]


def test_npy_files_do_not_hold_rows_of_different_shapes(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "out", RowFormat.NPY)
    with pytest.raises(UsageError, match="output 'y' has rows of different shapes"):
        folder.write(part(), rows(y=[np.zeros(2), np.zeros(3)]))
    assert not folder.written([part()])


def test_pictures_are_named_by_their_row(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    folder = new_folder(tmp_path / "out", RowFormat.IMAGES)
    folder.write(part(), rows(y=np.stack([np.zeros((1, 2, 3)), np.full((1, 2, 3), 2.0)])))
    made = tmp_path / "out/part-00000"
    assert sorted(each.name for each in made.iterdir()) == ["000000004.png", "000000006.png"]
    with image.open(made / "000000006.png") as picture:
        assert picture.size == (3, 2)
        assert np.asarray(picture).min() == 255
    with pytest.raises(UsageError, match="output 'y' is no image"):
        folder.write(part(1), rows(y=np.zeros((2, 5))))


@pytest.mark.parametrize("kind", [RowFormat.JSON_LINES, RowFormat.NPY])
def test_a_part_that_is_written_twice_is_there_once(tmp_path: Path, kind: RowFormat) -> None:
    folder = new_folder(tmp_path / "out", kind)
    for _ in range(2):
        folder.write(part(), rows(y=np.zeros(2)))
    assert folder.written([part(), part(1)]) == {0}
    assert len(list((tmp_path / "out").glob("part-*"))) == 1
    RUNNING.close()
    assert sorted(each.name for each in (tmp_path / "out" / OWN).iterdir() if each.is_dir()) == [
        "empty",
        "errors",
        "parts",
    ]


def test_a_part_is_not_there_before_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = new_folder(tmp_path / "out", RowFormat.CSV)

    def stop(_path: Path) -> None:
        assert not folder.written([part()])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output_parts, "_sync_to_disk", stop)
    with pytest.raises(UsageError, match=r"cannot write '.*part-00000.csv': No space left"):
        folder.write(part(), rows(y=np.zeros(2)))
    assert not folder.written([part()])
    assert not list((tmp_path / "out" / OWN).glob("runs/*/scratch/*"))


def test_a_part_of_failed_rows_alone_is_done_and_has_no_file(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "out", RowFormat.CSV)
    failed = RowError(row_id=3, file="rows.csv", file_row=3, reason="it is no UTF-8")
    nothing = np.zeros(0, np.int64)
    folder.write(part(1), Rows(row_ids=nothing, columns={}, errors=(failed,)))
    assert folder.written([part(0), part(1)]) == {1}
    assert not list((tmp_path / "out").glob("part-*"))
    assert list(folder.errors([part(0), part(1)])) == [failed]


def test_a_folder_with_anything_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        verify_is_free(tmp_path)
    with pytest.raises(UsageError, match="is no folder"):
        verify_is_free(tmp_path / "mine.txt")
    folder = new_folder(tmp_path / "out", RowFormat.CSV)
    verify_is_free(tmp_path / "out")
    folder.write(part(), rows(y=np.zeros(2)))
    with pytest.raises(UsageError, match="--resume goes on with it"):
        verify_is_free(tmp_path / "out")


def test_only_the_same_batch_goes_on(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "out", RowFormat.CSV, package={"digest": "a"}, part_rows=3)
    RUNNING.close()
    with folder.resumed_job({"package": {"digest": "a"}, "part_rows": 3}) as job:
        assert job["part_rows"] == 3
    with (
        pytest.raises(UsageError, match="of another batch: the package, --part-rows differ;"),
        folder.resumed_job({"package": {"digest": "b"}, "part_rows": 4}),
    ):
        pass


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "has no batch to go on with"), ("{", "cannot read"), ("[]", "it is no object")],
)
def test_a_job_that_cannot_be_read_is_told(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / OWN).mkdir()
        (tmp_path / OWN / "job.json").write_text(text)
    with pytest.raises(UsageError, match=message):
        read_job(tmp_path)


def test_dates_are_texts_where_json_has_no_form_for_them(tmp_path: Path) -> None:
    dates = [dt.date(2026, 1, 2), [Decimal("1.50")]]
    new_folder(tmp_path / "out", RowFormat.JSON_LINES).write(part(), rows(when=dates))
    lines = (tmp_path / "out/part-00000.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["when"] for line in lines] == ["2026-01-02", ["1.50"]]
    new_folder(tmp_path / "csv", RowFormat.CSV).write(part(), rows(when=dates))
    assert '"[""1.50""]"' in (tmp_path / "csv/part-00000.csv").read_text()


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (RowFormat.JSON_LINES, [b"a", b"b"]),
        (RowFormat.JSON_LINES, ["\ud800", ""]),
        (RowFormat.CSV, [b"a", b"b"]),
        (RowFormat.CSV, [[b"a"], []]),
        (RowFormat.PARQUET, [2**70, 1]),
        (RowFormat.PARQUET, ["\ud800", ""]),
    ],
)
def test_a_value_that_the_format_cannot_hold_is_told(
    tmp_path: Path, kind: RowFormat, values: list[Any]
) -> None:
    if kind is RowFormat.PARQUET:
        pytest.importorskip("pyarrow")
    folder = new_folder(tmp_path / "out", kind)
    with pytest.raises(UsageError, match=r"cannot (be written|write)|which texts do not hold"):
        folder.write(part(), rows(kept=values))
    assert folder.written([part()]) == set()


@pytest.mark.parametrize(
    ("values", "what"),
    [
        (["a", None], "nothing in a row"),
        ([[1, None], [2, 3]], "nothing in a row"),
        ([1, "a"], "numbers beside texts"),
        ([True, 2], "truth values beside numbers"),
        ([{"a": 1}, {"a": 2}], "a dict"),
        ([[1, 2], [3]], "rows of different shapes"),
        ([2**70, 1], "whole numbers that are too large"),
        ([2**53 + 1, 0.5], "whole numbers that are too large"),
        (["a\0", "b"], "end with NUL"),
        ([b"\0", b"b"], "end with NUL"),
    ],
)
def test_npy_files_hold_numbers_or_texts_and_never_something_like_them(
    tmp_path: Path, values: list[Any], what: str
) -> None:
    folder = new_folder(tmp_path / "out", RowFormat.NPY)
    with pytest.raises(UsageError, match=rf"output 'kept' has .*{what}.*--format parquet"):
        folder.write(part(), rows(kept=values))
    assert not folder.written([part()])


@pytest.mark.parametrize(
    "values",
    [
        [True, False],
        [1, 2.5],
        [float("nan"), float("-inf")],
        [[1, 2], [3, 4]],
        [["a", "b"], ["c", ""]],
        [b"\0a", b""],
    ],
)
def test_npy_files_have_what_was_given(tmp_path: Path, values: list[Any]) -> None:
    new_folder(tmp_path / "out", RowFormat.NPY).write(part(), rows(kept=values))
    found = np.load(tmp_path / "out/part-00000/kept.npy", allow_pickle=False)
    np.testing.assert_array_equal(found, values)
    assert found.dtype.kind in "biufUS"


def test_numbers_that_are_none_and_nothing_are_told_apart_where_they_can_be(tmp_path: Path) -> None:
    columns: dict[str, Column] = {
        "y": np.array([[np.nan, np.inf], [-np.inf, 1]]),
        "kept": [{"a": [None, 1.5]}, None],
    }
    new_folder(tmp_path / "out", RowFormat.JSON_LINES).write(part(), rows(**columns))
    assert (tmp_path / "out/part-00000.jsonl").read_text().splitlines() == [
        '{"row_id": 4, "y": [NaN, Infinity], "kept": {"a": [null, 1.5]}}',
        '{"row_id": 6, "y": [-Infinity, 1.0], "kept": null}',
    ]
    new_folder(tmp_path / "csv", RowFormat.CSV).write(part(), rows(**columns))
    with (tmp_path / "csv/part-00000.csv").open(newline="") as file:
        assert list(csv.reader(file))[1:] == [
            ["4", "[NaN, Infinity]", '{"a": [null, 1.5]}'],
            ["6", "[-Infinity, 1.0]", ""],
        ]


def test_columns_that_would_be_one_npy_file_are_told(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "out", RowFormat.NPY)
    with pytest.raises(UsageError, match="'a/b' and 'a_b' would both be the file"):
        folder.write(part(), rows(**{"a/b": np.ones(2), "a_b": np.zeros(2)}))


@pytest.mark.parametrize("takes_over", [BatchFolder.new_job, BatchFolder.resumed_job])
def test_a_batch_that_runs_is_not_touched_by_another_command(
    tmp_path: Path, takes_over: Any
) -> None:
    new_folder(tmp_path / "out", RowFormat.JSON_LINES, package={"name": "a"})
    (half,) = (tmp_path / "out" / OWN).glob("runs/*/scratch")
    again = BatchFolder(tmp_path / "out", RowFormat.JSON_LINES)
    job = {"package": {"name": "a" if takes_over is BatchFolder.resumed_job else "b"}}
    with (
        pytest.raises(UsageError, match="another command writes there now"),
        takes_over(again, job),
    ):
        pass
    assert half.is_dir()
    assert read_job(tmp_path / "out")["package"] == {"name": "a"}


def test_what_times_out_in_a_batch_is_not_taken_for_another_command(tmp_path: Path) -> None:
    folder = BatchFolder(tmp_path / "out", RowFormat.CSV)
    with pytest.raises(TimeoutError, match="a worker"), folder.new_job({}):
        raise TimeoutError("a worker")
    (tmp_path / "out" / OWN / "lock").unlink()
    (tmp_path / "out" / OWN / "lock").mkdir()
    with pytest.raises(UsageError, match="cannot be written"), folder.new_job({}):
        pass


@pytest.mark.parametrize("kind", [RowFormat.JSON_LINES, RowFormat.NPY])
def test_workers_that_outlive_their_command_write_nothing_into_the_next_batch(
    tmp_path: Path, kind: RowFormat
) -> None:
    out = tmp_path / "out"
    before = BatchFolder(out, kind)
    with before.new_job({"package": {"name": "a"}}):
        worker: BatchFolder = pickle.loads(pickle.dumps(before))
        (out / OWN / "errors" / "part-00000.jsonl").write_text("{}")  # whose part was never written
    new_folder(out, kind, package={"name": "b"})
    with pytest.raises(UsageError, match="cannot write"):
        worker.attempt(part())
    failed = RowError(row_id=5, file="rows", file_row=1, reason="it fails")
    with pytest.raises(UsageError, match="has ended"):
        worker.write(part(), Rows(row_ids=TWO, columns={"y": np.zeros(2)}, errors=(failed,)))
    assert not worker.written([part()])
    assert list(worker.errors([part()])) == []


def test_rows_that_another_variant_ran_after_all_are_no_errors(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "out", RowFormat.CSV)
    failed = RowError(row_id=5, file="rows", file_row=1, reason="it fails")
    (tmp_path / "out" / OWN / "errors" / "part-00000.jsonl").write_text(error_line(failed))
    folder.write(part(), rows(y=np.zeros(2)))  # by a worker that came after one that was killed
    assert list(folder.errors([part()])) == []
