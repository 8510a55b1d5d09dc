"""An execution provider that nobody knows is wrong usage, whichever command is asked for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import DIGITS, RunCommand

pytestmark = pytest.mark.usefixtures("warm_processes")

MODEL = DIGITS / "models" / "classifier" / "cpu-fp32" / "model.onnx"


@pytest.mark.parametrize(
    "words",
    [
        ["select", DIGITS],
        ["select", DIGITS, "--compare"],
        ["run", DIGITS],
        ["plan", DIGITS],
        ["plan", MODEL],
        ["bench", DIGITS],
        ["compile", DIGITS],
        ["compile-models", MODEL, "-o", "new"],
        ["cache", "why", DIGITS],
        ["cache", "why", MODEL],
        ["cache", "list"],
        ["cache", "clear"],
        ["migrate-check", DIGITS],
        ["slim", DIGITS, "-o", "new"],
        ["devices"],
    ],
    ids=lambda words: " ".join(Path(str(word)).name for word in words),
)
def test_ends_with_the_same_exit_code_and_a_suggestion(
    ortpkg: RunCommand, words: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = ortpkg(*words, "--ep", "opnvino")
    assert (done.code, done.out) == (2, "")
    assert "there is no execution provider 'opnvino'" in done.err
    assert "did you mean 'OpenVINOExecutionProvider'?" in done.err
    known = done.err.partition("(known are: ")[2].replace("\n", " ")
    assert {"cpu", "cuda", "openvino", "qnn"} <= set(known.rstrip(" )").split(", "))


@pytest.mark.parametrize(
    "words", [["select", DIGITS], ["compile", DIGITS], ["compile-models", MODEL, "-o", "new"]]
)
def test_one_that_is_known_and_not_here_is_something_else(
    ortpkg: RunCommand, words: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ortpkg(*words, "--ep", "vitisai").code == 3
