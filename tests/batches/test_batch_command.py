"""``ortpkg batch`` in this process: the same job, parts and outputs as on a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ortpkg
from ortpkg.cli.app import run
from ortpkg.scale.batches.batch_folder import BatchFolder
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.batches.rows import Rows
from tests.cli.conftest import DIGITS

IMAGES = np.load(DIGITS / "samples/held_out_inputs.npz")
COUNT = 20
MORE = ("--backend", "embedded", "--batch-size", "6")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (name,) = IMAGES.files
    path = tmp_path / "rows.jsonl"
    lines = [
        json.dumps({"image": each.tolist(), "id": f"n{place}"})
        for place, each in enumerate(IMAGES[name][:COUNT])
    ]
    path.write_text("\n".join(lines))
    return path


def batch(rows: Path, out: Path, *more: str) -> int:
    words = ["batch", str(DIGITS), "--input", str(rows), "--output", str(out), "--in-process"]
    size = [] if "--batch-size" in more or "--resume" in more else ["--batch-size", "4"]
    return run([*words, "--backend", "embedded", "--part-rows", "8", *size, *more])


def outputs(out: Path) -> dict[int, Any]:
    found = {}
    for path in sorted(out.glob("part-*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            assert record["row_id"] not in found
            found[record["row_id"]] = record
    return found


def test_every_row_is_run_once(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert batch(rows, tmp_path / "out", "--keep", "id", "--batch-size", "3") == 0
    found = outputs(tmp_path / "out")
    assert sorted(found) == list(range(COUNT))
    assert found[7]["id"] == "n7"
    labels = np.load(DIGITS / "samples/held_out_labels.npz")
    expected = labels[labels.files[0]][:COUNT]
    right = sum(np.argmax(found[row]["logits"]) == expected[row] for row in found)
    assert right >= COUNT - 1
    said = capsys.readouterr()
    assert "cpu-fp32" in said.out
    assert "20 rows in 3 parts; 3 a run" in said.err


def test_a_batch_goes_on_from_what_is_written(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch(rows, tmp_path / "out")
    before = outputs(tmp_path / "out")
    lost = tmp_path / "out/part-00001.jsonl"
    lost.unlink()
    assert batch(rows, tmp_path / "out") == 2
    capsys.readouterr()
    other = ("--variant", "cpu-int8", "--device", "cpu", "--policy", "prefer-cpu")
    assert batch(rows, tmp_path / "out", "--resume", *other) == 2
    assert "--variant, --device, --policy differ;" in capsys.readouterr().err
    assert not lost.exists()
    assert batch(rows, tmp_path / "out", "--resume", "--json") == 0
    assert outputs(tmp_path / "out") == before
    begin, done, end = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (begin["rows"], begin["rows_written_before"]) == (COUNT, 12)
    assert (done["part"], done["rows"], done["rows_done"]) == (1, 8, COUNT)
    assert end["nodes"][0]["variants"][0]["variant"] == "cpu-fp32"


def test_what_another_variant_began_it_does_not_end_where_results_have_to_be_the_same(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    batch(rows, out, "--same-results", "0")
    lost = out / "part-00001.jsonl"
    lost.unlink()
    job = out / ".ortpkg-batch/job.json"
    noted = job.read_text()
    job.write_text(noted.replace("cpu-fp32", "cpu-int8"))
    assert batch(rows, out, "--resume", "--same-results", "0") == 2
    assert "would go on with cpu-fp32 on CPUExecutionProvider" in capsys.readouterr().err
    job.write_text(noted)
    assert batch(rows, out, "--resume", "--same-results", "0") == 0
    assert lost.exists()


def test_rows_that_fail_are_listed_or_end_the_batch(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = rows.read_text().splitlines()
    lines[5], lines[9] = "{", '{"image": [1, 2, 3]}'
    rows.write_text("\n".join(lines))
    assert batch(rows, tmp_path / "stopped") == 5
    assert f"row 5 of {rows}: it is no JSON" in capsys.readouterr().err
    failed = tmp_path / "failed.jsonl"
    assert batch(rows, tmp_path / "out", "--errors", str(failed)) == 0
    assert sorted(set(range(COUNT)) - set(outputs(tmp_path / "out"))) == [5, 9]
    listed = [json.loads(line) for line in failed.read_text().splitlines()]
    assert [each["row_id"] for each in listed] == [5, 9]
    assert listed[1]["reason"] == "'image' has 3; the input takes 1x8x8"
    before = failed.read_text()
    assert batch(rows, tmp_path / "again", "--errors", str(failed)) == 2
    assert f"{failed}' exists already" in capsys.readouterr().err
    (tmp_path / "out/part-00001.jsonl").unlink()
    assert batch(rows, tmp_path / "out", "--errors", str(failed), "--resume") == 0
    assert failed.read_text() == before


def test_a_file_of_somebody_else_is_never_written_over(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.write_text("{\n" + rows.read_text())
    mine, out = tmp_path / "mine.txt", tmp_path / "out"
    assert batch(rows, out, "--errors", "/dev/null") == 0
    mine.write_text("mine")
    (out / "part-00000.jsonl").unlink()
    assert batch(rows, out, "--errors", str(mine), "--resume") == 2
    assert "exists already, and is not what this batch listed" in capsys.readouterr().err
    assert not (out / "part-00000.jsonl").exists()
    assert batch(rows, out, "--errors", str(out / "part-00000.jsonl"), "--resume") == 2
    assert "is in --output" in capsys.readouterr().err

    late = tmp_path / "late.txt"
    written = BatchFolder.write

    def write(folder: BatchFolder, part: Part, found: Rows) -> None:
        late.write_text("mine")
        written(folder, part, found)

    monkeypatch.setattr(BatchFolder, "write", write)
    assert batch(rows, out, "--errors", str(late), "--resume") == 2
    assert "has come there while the batch ran" in capsys.readouterr().err
    assert late.read_text() == mine.read_text() == "mine"
    assert batch(rows, out, "--errors", str(tmp_path / "listed.jsonl"), "--resume") == 0
    assert "it is no JSON" in (tmp_path / "listed.jsonl").read_text()


def test_what_is_wrong_is_told_before_anything_is_written(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert batch(rows, out, "--format", "parqet") == 2
    assert "did you mean 'parquet'" in capsys.readouterr().err
    assert batch(rows, out, "--map", "imgae=x") == 2
    assert batch(rows, tmp_path) == 2
    assert batch(rows, out, "--workers", "2") == 2
    assert not out.exists()


def test_pictures_are_rows_and_a_damaged_one_is_an_error(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    (name,) = IMAGES.files
    for place, pixels in enumerate(IMAGES[name][:4, 0]):
        file = tmp_path / f"pictures/{place % 2}/{place}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray((pixels * 255 / 16).astype(np.uint8)).save(file)
    (tmp_path / "pictures/0/2.png").write_bytes(b"\x89PNG")
    out, failed = tmp_path / "out", tmp_path / "failed.jsonl"
    code = batch(tmp_path / "pictures", out, "--format", "jsonl", "--errors", str(failed))
    assert code == 0
    found = outputs(out)
    assert [Path(each["path"]).name for each in found.values()] == ["0.png", "1.png", "3.png"]
    assert json.loads(failed.read_text())["file"].endswith("2.png")


def test_a_packed_package_and_a_bare_model_run_too(tmp_path: Path) -> None:
    (name,) = IMAGES.files
    np.save(tmp_path / "rows.npy", IMAGES[name][:6])
    packed = tmp_path / "digits.ortpkg"
    ortpkg.pack(DIGITS, packed)
    model = DIGITS / "models/classifier/cpu-fp32/model.onnx"
    for place, package in enumerate((packed, model)):
        words = ["--input", str(tmp_path / "rows.npy"), "--output", str(tmp_path / f"out{place}")]
        assert run(["batch", str(package), *words, "--in-process", *MORE]) == 0
    first, second = (np.load(tmp_path / f"out{place}/part-00000/logits.npy") for place in (0, 1))
    np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-5)


def test_half_a_character_is_an_error_of_its_row(rows: Path, tmp_path: Path) -> None:
    lines = rows.read_text().splitlines()[:3]
    lines[1] = lines[1].replace('"n1"', '"\\ud800"')
    rows.write_text("\n".join(lines))
    failed = tmp_path / "failed.jsonl"
    assert batch(rows, tmp_path / "out", "--keep", "id", "--errors", str(failed)) == 0
    assert sorted(outputs(tmp_path / "out")) == [0, 2]
    assert "surrogates" in failed.read_text()


def test_a_folder_for_errors_that_is_missing_is_told_before_rows_run(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert batch(rows, tmp_path / "out", "--errors", str(tmp_path / "no/failed.jsonl")) == 2
    assert "is in no folder" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
