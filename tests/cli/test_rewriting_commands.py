"""convert, merge, slim and migrate-check on the command line."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import DIGITS, RunCommand


def test_convert_makes_a_new_package(ortpkg: RunCommand, tmp_path: Path) -> None:
    done = ortpkg("convert", DIGITS, "--to", "component", "-o", tmp_path / "new")

    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines()[-1].endswith("new is a component package")
    assert ortpkg("inspect", tmp_path / "new", "--json").json["format"] == "component"


def test_convert_wants_to_know_where_the_result_goes(ortpkg: RunCommand, tmp_path: Path) -> None:
    done = ortpkg("convert", DIGITS, "--to", "component")

    assert done.code == 2
    assert "-o NEW makes a new package, --in-place changes this one" in done.err
    assert (
        ortpkg("convert", DIGITS, "--to", "component", "-o", tmp_path / "n", "--in-place").code == 2
    )


def test_slim_prints_the_bytes_of_each_variant(ortpkg: RunCommand, tmp_path: Path) -> None:
    done = ortpkg("slim", DIGITS, "--device", "cpu,npu", "-o", tmp_path / "new")

    assert done.code == 0
    assert [line.split()[1::3] for line in done.out.splitlines()[1:]] == [
        ["cpu-fp32", "kept"],
        ["cpu-int8", "kept"],
        ["openvino-npu", "kept"],
        ["openvino-gpu", "dropped"],
        ["cuda", "dropped"],
    ]
    assert "are left, " in done.err
    assert ortpkg("validate", tmp_path / "new").code == 0


def test_slim_as_json(ortpkg: RunCommand, tmp_path: Path) -> None:
    found = ortpkg("slim", DIGITS, "--variant", "cuda", "-o", tmp_path / "new", "--json").json

    kept = {each["variant"]: each["nbytes"] for each in found["variants"] if each["kept"]}
    assert kept == {"cuda": (DIGITS / "models/classifier/cuda/model.onnx").stat().st_size}
    assert found["after_nbytes"] < found["before_nbytes"]


def test_merge_brings_together_what_slim_took_apart(ortpkg: RunCommand, tmp_path: Path) -> None:
    for name, wanted in (("a", "cpu-fp32,cpu-int8"), ("b", "openvino-npu,openvino-gpu,cuda")):
        assert ortpkg("slim", DIGITS, "--variant", wanted, "-o", tmp_path / name).code == 0

    done = ortpkg("merge", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "c")
    assert (done.code, done.err) == (0, f"{tmp_path / 'c'} has classifier (5 variants)\n")
    assert ortpkg("merge", tmp_path / "b", "--into", tmp_path / "a").code == 0

    files = sorted(path.relative_to(DIGITS) for path in DIGITS.rglob("*") if path.is_file())
    for merged in (tmp_path / "a", tmp_path / "c"):
        assert {
            str(path): (merged / path).read_bytes() == (DIGITS / path).read_bytes()
            for path in files
        } == {str(path): True for path in files}


def test_merge_takes_two_packages(ortpkg: RunCommand, tmp_path: Path) -> None:
    done = ortpkg("merge", DIGITS, "-o", tmp_path / "c")

    assert done.code == 2
    assert "write ortpkg merge A B -o NEW, or ortpkg merge B --into A" in done.err


def test_migrate_check_shows_what_each_release_selects(ortpkg: RunCommand) -> None:
    done = ortpkg("migrate-check", DIGITS)

    assert done.code == 0
    titles = [line for line in done.out.splitlines() if line.endswith("the package")]
    assert titles == [
        "onnxruntime 1.26 and 1.27: opens the package",
        "onnxruntime 1.28 to 1.30: opens the package",
        "onnxruntime 1.31: opens the package",
        "onnxruntime 1.32: opens the package",
    ]
    assert (
        "never selects classifier/cpu-int8: it can run, but 'cpu-fp32' has the same score"
        in done.out
    )
    assert ortpkg("migrate-check", DIGITS, "--strict").code == 1


def test_migrate_check_as_json(ortpkg: RunCommand, tmp_path: Path) -> None:
    ortpkg("convert", DIGITS, "--to", "metadata", "-o", tmp_path / "m")

    older, newer, *_, newest = ortpkg("migrate-check", tmp_path / "m", "--json").json["releases"]

    assert (older["opens"], newer["opens"], newest["opens"]) == (True, False, False)
    assert newest["refusals"] == ["manifest.json: lacks 'schema_version'"]
    chosen = {(each["ep"], each["device"]): each["variant"] for each in older["choices"]}
    assert chosen["CUDAExecutionProvider", "gpu"] == "cuda"
    assert chosen[None, None] is None
