"""Help of commands on a screen of 80 columns: short, in groups, with room for descriptions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import typer

from ortpkg.cli.app import COMMANDS, _application, run
from ortpkg.cli.help import EXAMPLES
from ortpkg.cli.option_groups import GENERAL, OPTION_GROUPS
from ortpkg.cli.setting_defaults import NO_DEFAULTS
from ortpkg.foundations.quantities import parse_duration_s, parse_nbytes
from tests.cli.conftest import RunCommand, Terminal

_MOST_LINES = 60
_LEAST_DESCRIPTION = 40
_LABEL = re.compile(r"  (--?[\w-]+(?:, --[\w-]+)?(?: / --[\w-]+)?(?: \S+)?)(?:  +|$)")


_TEXTS: dict[tuple[str, ...], str] = {}


@pytest.fixture
def narrow(ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Returns what ``ortpkg WORD...`` prints at 80 columns; asks once for each command line."""
    monkeypatch.setenv("COLUMNS", "80")

    def text_of(*words: str) -> str:
        if words not in _TEXTS:
            done = ortpkg(*words)
            assert (done.code, done.err) == (0, "")
            _TEXTS[words] = done.out
        return _TEXTS[words]

    return text_of


def _options(text: str) -> list[str]:
    """Options that a help text lists, each by its long name if it has one."""
    labels = [re.split(r"  +| / ", line)[1] for line in text.splitlines() if line[:3] == "  -"]
    return [max(re.findall(r"--?[\w-]+", label), key=len) for label in labels]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_fits_80_columns(narrow: Callable[..., str], name: str) -> None:
    for flag in ("--help", "--help-all"):
        lines = narrow(name, flag).splitlines()
        assert max(map(len, lines)) <= 80
        assert flag == "--help-all" or len(lines) <= _MOST_LINES
        starts = {
            label.end()
            for line in lines
            if (label := _LABEL.match(line)) and label.end() < len(line)
        }
        assert len(starts) == 1
        assert 80 - starts.pop() >= _LEAST_DESCRIPTION


@pytest.mark.parametrize("words", [("--help",), ("--help-all",), ("help",)])
def test_the_help_of_all_commands_fits_80_columns(
    narrow: Callable[..., str], words: tuple[str, ...]
) -> None:
    text = narrow(*words)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    listed = {line[2:].split("  ")[0] for line in lines if line[:2] == "  " and line[2:3] != " "}
    short = set(text.replace(",", " ").split())  # it names the less common ones in one line
    assert set(COMMANDS) <= (listed if "--help-all" in words else short)
    assert text.count("says why, and runs") == 1
    broken = [line for line in lines if line.startswith(" " * 18)]
    # each command has one line, and the names of the less common ones go on below themselves
    assert bool(broken) is ("--help-all" not in words)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_the_whole_help_once(narrow: Callable[..., str], name: str) -> None:
    common, whole = narrow(name, "--help"), narrow(name, "--help-all")
    shown = _options(whole)
    assert len(shown) == len(set(shown))
    assert shown[-len(GENERAL) :] == list(GENERAL)
    left_out = set(shown) - set(_options(common))
    said = re.search(r"^(\d+) more options: ortpkg (\S+) --help-all$", common, re.MULTILINE)
    assert (said and (int(said[1]), said[2])) == ((len(left_out), name) if left_out else None)
    assert "more options" not in whole


def _parameters(name: str) -> list[Any]:
    """Parameters of a command, as typer knows them."""
    group: Any = typer.main.get_command(_application(name, NO_DEFAULTS, is_alone=True))
    with group.make_context("ortpkg", [name], resilient_parsing=True) as context:
        return list(group.get_command(context, name).params)


@pytest.mark.parametrize("name", OPTION_GROUPS)
def test_the_groups_of_a_command_name_its_options(name: str) -> None:
    options = [
        max(parameter.opts, key=len)
        for parameter in _parameters(name)
        if parameter.param_type_name == "option"
    ]
    groups = OPTION_GROUPS[name]
    grouped = [
        option for names in (*groups.common.values(), *groups.rare.values()) for option in names
    ]
    assert sorted([*grouped, *GENERAL]) == sorted(options)


@pytest.mark.parametrize("name", COMMANDS)
def test_times_and_sizes_have_their_defaults_in_words_that_can_be_typed(name: str) -> None:
    for parameter in _parameters(name):
        parse = {"T": parse_duration_s, "SIZE": parse_nbytes}.get(parameter.metavar)
        if parse is not None and isinstance(parameter.default, float | int):
            text = re.search(r"[Dd]efault: (\w+)", parameter.help)
            assert text is not None, parameter.opts
            assert parse(text[1], "it") == parameter.default
            assert parameter.show_default is False


def test_an_example_on_several_lines_can_be_pasted(narrow: Callable[..., str]) -> None:
    examples = narrow("run", "--help").partition("Examples\n")[2]
    joined = re.sub(r" \\\n\s+", " ", examples)
    assert joined != examples
    assert [line.strip() for line in joined.splitlines()] == list(EXAMPLES["run"])


def test_help_on_a_terminal_has_colours(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["validate", "--help"]) == 0
    assert "\x1b[1;36m  --select" in terminal.getvalue()
