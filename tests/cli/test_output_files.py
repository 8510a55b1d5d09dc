"""Commands replace their own outputs, and nothing that somebody else keeps under that name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import DIGITS, RunCommand

MODEL = DIGITS / "models/classifier/cpu-fp32/model.onnx"
COMMANDS: dict[str, list[str | Path]] = {
    "run": ["run", DIGITS, "--backend", "embedded", "-o"],
    "plan": ["plan", MODEL, "--svg"],
    "bench": ["bench", DIGITS, "--variant", "cpu-fp32", "--backend", "embedded", "--repeat", "1", "--rounds", "1"],
    "devices": ["devices", "--export"],
}
COMMANDS["bench"] += ["--svg"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_that_is_no_such_output_stays(name: str, ortpkg: RunCommand, tmp_path: Path) -> None:
    for other, content in {"model.onnx": MODEL.read_bytes(), "package.ortpkg": _packed(ortpkg, tmp_path)}.items():
        path = tmp_path / other
        path.write_bytes(content)
        done = ortpkg(*COMMANDS[name], path)
        assert (done.code, path.read_bytes() == content) == (2, True), done.err
        assert "is there already and is not" in done.err


@pytest.mark.parametrize("name", COMMANDS)
def test_what_the_command_wrote_is_written_anew(name: str, ortpkg: RunCommand, tmp_path: Path) -> None:
    path = tmp_path / "output"
    for _ in range(2):
        done = ortpkg(*COMMANDS[name], path)
        assert done.code == 0, done.err
    assert path.stat().st_size > 100


def test_the_inputs_of_a_run_stay(ortpkg: RunCommand, tmp_path: Path) -> None:
    """They are arrays in npz files, as outputs are."""
    inputs = tmp_path / "inputs.npz"
    assert ortpkg("run", MODEL, "--random", "--backend", "embedded", "-o", inputs).code == 0
    content = inputs.read_bytes()
    done = ortpkg("run", MODEL, "--input", f"image={inputs}", "--backend", "embedded", "-o", inputs)

    assert (done.code, inputs.read_bytes() == content) == (2, True)
    assert "would replace what the command reads" in done.err


def _packed(ortpkg: RunCommand, folder: Path) -> bytes:
    assert ortpkg("pack", DIGITS, "-o", folder / "digits.ortpkg").code == 0
    content = (folder / "digits.ortpkg").read_bytes()
    (folder / "digits.ortpkg").unlink()
    return content
