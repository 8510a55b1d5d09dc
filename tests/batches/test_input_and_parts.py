"""Which rows an input has, and how they are cut into parts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ortpkg.foundations.errors import UsageError
from ortpkg.scale.batches.input_files import RowFormat, find_input
from ortpkg.scale.batches.part_planning import PartLimits, plan_parts
from ortpkg.scale.batches.part_reading import Reading
from ortpkg.scale.batches.parts import Part, reading_groups
from ortpkg.scale.batches.rows import Rows

THREE = PartLimits(most_rows=3)


def read(path: Path, limits: PartLimits = THREE) -> list[tuple[Part, Rows]]:
    source = find_input([path])
    reading = Reading(format=source.format)
    parts = plan_parts(source, limits)
    return [found for group in reading_groups(parts) for found in reading.rows_of(group)]


def test_files_of_folders_come_by_name_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", ".hidden.csv", "_temporary/c.csv", "deep/d.csv", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n1\n")
    found = find_input([tmp_path])
    assert found.format is RowFormat.CSV
    assert [str(each.relative_to(tmp_path)) for each in found.files] == [
        "a.csv",
        "b.csv",
        "deep/d.csv",
    ]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a.csv", "b.jsonl"], "rows come from files of one format"),
        (["notes.txt"], "rows are read from files that end with .parquet"),
        (["missing.csv"], "it does not exist"),
        (["a.csv", "a.csv"], "is given twice"),
    ],
)
def test_input_that_cannot_be_read_is_told_before_anything_runs(
    tmp_path: Path, names: list[str], message: str
) -> None:
    for name in ("a.csv", "b.jsonl", "notes.txt"):
        (tmp_path / name).write_text("x\n")
    with pytest.raises(UsageError, match=message):
        find_input([tmp_path / name for name in names])


def test_input_with_a_name_says_that_files_come_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("x\n")
    with pytest.raises(UsageError, match=r"a batch takes the file alone, as 'a\.csv'"):
        find_input([Path("x=a.csv")])
    with pytest.raises(UsageError, match=r"does not exist$"):
        find_input([Path("x=b.csv")])


def test_rows_are_numbered_through_all_files(tmp_path: Path) -> None:
    for name, count in (("a.jsonl", 4), ("b.jsonl", 2)):
        lines = (json.dumps({"x": f"{name}{place}"}) for place in range(count))
        (tmp_path / name).write_text("\n\n".join(lines))
    found = read(tmp_path)
    assert [(part.number, part.first_row, part.file_row, part.count) for part, _ in found] == [
        (0, 0, 0, 3),
        (1, 3, 3, 1),
        (2, 4, 0, 2),
    ]
    assert [rows.row_ids.tolist() for _, rows in found] == [[0, 1, 2], [3], [4, 5]]
    assert found[1][1].columns["x"] == ["a.jsonl3"]


def test_csv_records_may_have_line_ends_and_quotes_in_them(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(
        '\ufeffa,b\r\n1,"two\r\nlines"\r\n2,"say ""so"""\r\n\r\n3,5" pipe\n4,ü'.encode()
    )
    found = read(path, PartLimits(most_rows=2))
    assert [rows.columns for _, rows in found] == [
        {"a": ["1", "2"], "b": ["two\r\nlines", 'say "so"']},
        {"a": ["3", "4"], "b": ['5" pipe', "ü"]},
    ]


def test_parts_are_cut_by_bytes_too(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x\n" + "1234567\n" * 5)
    counts = [part.count for part, _ in read(path, PartLimits(most_rows=100, most_nbytes=16))]
    assert counts == [2, 2, 1]


def test_rows_that_cannot_be_read_are_errors_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    deep = b"[" * 100_000
    path.write_bytes(b'{"x": 1}\nnot json\n[1]\n{"x": "\xff"}\n{"x": ' + deep + b'\n{"x": 6}')
    ((_, rows),) = read(path, PartLimits())
    assert rows.row_ids.tolist() == [0, 5]
    assert rows.columns == {"x": [1, 6]}
    assert [(error.row_id, error.file_row) for error in rows.errors] == [
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 4),
    ]
    assert "it is no JSON object" in rows.errors[1].reason


def test_json_lines_may_have_numbers_that_are_none_but_none_that_is_too_large(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"x": NaN}\n{"x": [-Infinity, Infinity]}\n{"x": 1e999}\n{"x": 1.5e-999}\n')
    ((_, rows),) = read(path, PartLimits())
    assert str(rows.columns["x"]) == "[nan, [-inf, inf], 0.0]"
    (error,) = rows.errors
    assert "the number 1e999 is larger than any float64" in error.reason


def test_csv_records_of_other_lengths_or_no_utf8_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,b\n1,2\n1,2,3\n\xff,2\n3,4\n")
    ((_, rows),) = read(path, PartLimits())
    assert rows.columns == {"a": ["1", "3"], "b": ["2", "4"]}
    assert [error.reason.partition(":")[0] for error in rows.errors] == [
        "it has 3 values; the header names 2 columns",
        "it is no UTF-8",
    ]


def test_npy_rows_are_the_first_dimension(tmp_path: Path) -> None:
    array = np.arange(10.0).reshape(5, 2)
    np.save(tmp_path / "a.npy", np.asfortranarray(array))
    found = read(tmp_path / "a.npy")
    np.testing.assert_array_equal(
        np.concatenate([rows.columns["data"] for _, rows in found]), array
    )


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([{}], object), "pickled Python objects"),
        (np.array(1.0), "which has no rows"),
    ],
)
def test_npy_files_without_rows_are_refused(
    tmp_path: Path, array: np.ndarray, message: str
) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(UsageError, match=message):
        read(tmp_path / "a.npy")


def test_a_damaged_npy_file_is_told(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((100, 3)))
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:300])
    with pytest.raises(UsageError, match="cannot read"):
        read(tmp_path / "a.npy")


def test_a_file_that_shrinks_while_the_batch_runs_is_told(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"x": 1}\n' * 4)
    source = find_input([path])
    parts = plan_parts(source, THREE)
    path.write_text('{"x": 1}\n')
    with pytest.raises(UsageError, match="has become shorter"):
        list(Reading(format=source.format).rows_of(parts[:1]))


@pytest.mark.parametrize(
    ("text", "message"), [("", "has no header"), ("a,a\n1,2\n", "has two columns 'a'")]
)
def test_csv_needs_a_header_that_names_columns_once(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(UsageError, match=message):
        read(tmp_path / "rows.csv")
