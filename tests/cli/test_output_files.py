"""Commands replace their own outputs where --overwrite says so, and nobody else's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import DIGITS, RunCommand

pytestmark = pytest.mark.usefixtures("warm_processes")

MODEL = DIGITS / "models/classifier/cpu-fp32/model.onnx"
#: Commands that write a file.
NAMES = ("run", "plan", "bench", "devices")
Commands = dict[str, tuple[list[str | Path], str]]


@pytest.fixture
def commands(few_digits: Path) -> Commands:
    """Name → the command, whose last option takes a file, and the ending of that file."""
    bench: list[str | Path] = ["bench", few_digits, "--variant", "cpu-fp32"]
    bench += ["--backend", "embedded", "--repeat", "1", "--rounds", "1"]
    return {
        "run": (["run", few_digits, "--backend", "embedded", "-o"], ".npz"),
        "plan": (["plan", MODEL, "--svg"], ".svg"),
        "bench": ([*bench, "--svg"], ".svg"),
        "devices": (["devices", "--export"], ".json"),
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_there_is_replaced_only_where_asked_for(
    name: str, ortpkg: RunCommand, commands: Commands, tmp_path: Path
) -> None:
    words, ending = commands[name]
    path = tmp_path / f"output{ending}"
    done = ortpkg(*words, path)
    assert done.code == 0, done.err
    assert path.stat().st_size > 100
    old = path.stat().st_ino
    done = ortpkg(*words, path)
    assert (done.code, path.stat().st_ino) == (2, old)
    assert "exists already; --overwrite replaces it, or name another file" in done.err
    assert ortpkg(*words, path, "--overwrite").code == 0
    assert path.stat().st_ino != old, "a file that somebody has open is not changed"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_no_such_output_stays(
    name: str, ortpkg: RunCommand, commands: Commands, tmp_path: Path
) -> None:
    words, ending = commands[name]
    path = tmp_path / f"mine{ending}"
    content = MODEL.read_bytes()
    path.write_bytes(content)
    done = ortpkg(*words, path, "--overwrite")
    assert (done.code, path.read_bytes() == content) == (2, True), done.err
    assert "exists already and is not" in done.err


@pytest.mark.parametrize("name", NAMES)
def test_another_ending_than_that_of_its_kind_is_refused(
    name: str, ortpkg: RunCommand, commands: Commands, tmp_path: Path
) -> None:
    words, ending = commands[name]
    done = ortpkg(*words, tmp_path / "out.txt")
    assert (done.code, list(tmp_path.iterdir())) == (2, [])
    assert f"whose name ends with {ending}" in done.err


def test_a_device_is_written_to(ortpkg: RunCommand, commands: Commands) -> None:
    for name in ("run", "plan", "devices"):
        assert ortpkg(*commands[name][0], "/dev/null").code == 0


def test_the_inputs_of_a_run_stay(ortpkg: RunCommand, tmp_path: Path) -> None:
    """They are arrays in npz files, as outputs are."""
    inputs = tmp_path / "inputs.npz"
    assert ortpkg("run", MODEL, "--random", "--backend", "embedded", "-o", inputs).code == 0
    content = inputs.read_bytes()
    done = ortpkg(
        "run",
        MODEL,
        "--input",
        f"image={inputs}",
        "--backend",
        "embedded",
        "-o",
        inputs,
        "--overwrite",
    )

    assert (done.code, inputs.read_bytes() == content) == (2, True)
    assert "would replace what the command reads" in done.err
