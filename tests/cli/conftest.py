"""A command line that runs in this process, and small models to use it on."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import onnx.parser
import pytest

from ortpkg.cli.app import main
from ortpkg.cli.rendering import reset
from tests.done import Done as Done

DIGITS = Path(__file__).resolve().parents[2] / "sample_packages" / "digits.ortpackage"
RunCommand = Callable[..., Done]
HelpOf = Callable[[str], Done]


@pytest.fixture
def ortpkg(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Runs ``ortpkg WORD...`` and returns its exit code and what it printed."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: object) -> Done:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        code = exit_.value.code
        return Done(code=int(code or 0), out=captured.out, err=captured.err)

    return run


_HELPS: dict[str, Done] = {}


@pytest.fixture
def help_of(ortpkg: RunCommand) -> HelpOf:
    """What ``ortpkg NAME --help`` says, asked once of each command."""

    def ask(name: str) -> Done:
        if name not in _HELPS:
            _HELPS[name] = ortpkg(name, "--help")
        return _HELPS[name]

    return ask


def save_scale(
    path: Path,
    *,
    factor: float = 2.0,
    input_type: str = "float[N, 3]",
    output_type: str = "float[N, 3]",
) -> Path:
    """Makes a small ONNX file: ``y = x * factor`` over float[N, 3]."""
    text = f"""
        <ir_version: 8, opset_import: ["" : 17]>
        scale ({input_type} x) => ({output_type} y) <float factor = {{{factor}}}>
        {{ y = Mul(x, factor) }}
    """
    onnx.save(onnx.parser.parse_model(text), path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Callable[..., Path]:
    """:func:`save_scale` into the test's own folder."""

    def make(name: str = "double.onnx", **words: Any) -> Path:
        return save_scale(tmp_path / name, **words)

    return make


class Terminal(io.StringIO):
    """A terminal that keeps what is written to it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Standard output and standard error as one terminal that knows colours."""
    reset()  # another test of this process may have run a command with --quiet
    made = Terminal()
    monkeypatch.setattr("ortpkg.cli.rendering.sys", SimpleNamespace(stdout=made, stderr=made))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    yield made
    reset()
