"""Bars on standard error leave standard output alone."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest

from ortpkg.cli.progress import copy_progress, elapsed
from ortpkg.cli.rendering import reset
from tests.cli.conftest import DIGITS, RunCommand, Terminal

_LARGE = 64 << 20


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """Makes standard error a terminal; a test asks for it when pytest has put its own in place."""

    def make() -> Terminal:
        made = Terminal()
        monkeypatch.setattr(sys, "stderr", made)
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("CI", raising=False)
        reset()
        return made

    return make


def test_a_large_copy_is_drawn_and_taken_away_when_it_is_done(
    on_terminal: Callable[[], Terminal],
) -> None:
    screen = on_terminal()
    with copy_progress() as progress:
        assert progress is not None
        progress("weights.bin", 1, _LARGE)
        progress("weights.bin", _LARGE, _LARGE)
        drawn = screen.getvalue()
        assert "weights.bin" in drawn
        assert drawn.endswith("\x1b[2K")  # the line of the bar is clear again
    assert screen.getvalue() == drawn


def test_a_small_copy_is_not_drawn(on_terminal: Callable[[], Terminal]) -> None:
    screen = on_terminal()
    with copy_progress() as progress:
        assert progress is not None
        progress("model.onnx", 1, 1000)
    assert screen.getvalue() == ""


def test_a_copy_that_ends_early_is_taken_away(on_terminal: Callable[[], Terminal]) -> None:
    screen = on_terminal()
    with suppress(KeyboardInterrupt), copy_progress() as progress:
        assert progress is not None
        progress("weights.bin", 1, _LARGE)
        raise KeyboardInterrupt
    assert "weights.bin" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")


def test_data_goes_to_standard_output_while_something_is_drawn(
    on_terminal: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen, file = on_terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    with copy_progress() as progress, elapsed("compiling"):
        assert progress is not None
        progress("weights.bin", 1, _LARGE)
        sys.stdout.write("data\n")
    assert file.getvalue() == "data\n"
    assert "data" not in screen.getvalue()


@pytest.mark.parametrize("words", [("inspect",), ("inspect", "--tree"), ("validate",)])
def test_what_a_command_prints_into_a_file_does_not_go_to_the_terminal(
    ortpkg: RunCommand, on_terminal: Callable[[], Terminal], words: tuple[str, ...]
) -> None:
    screen = on_terminal()
    done = ortpkg(words[0], DIGITS, *words[1:])
    assert done.out
    assert "digits" not in screen.getvalue()
