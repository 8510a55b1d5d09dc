"""What is printed is safe, readable and stable."""

from __future__ import annotations

import json

import pytest

from ortpkg.cli.rendering import (
    Output,
    configure,
    duration_text,
    is_coloured,
    nbytes_text,
    plain,
    print_error,
    print_findings,
)
from ortpkg.cli.table_layout import Column
from ortpkg.foundations.errors import Finding, UsageError
from tests.cli.conftest import Terminal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("bell\x07", "bell\\x07"),
        ("two\nlines", "two\nlines"),
        ("back\rwards", "back\\rwards"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("größe 模型", "größe 模型"),
        ("[bold]markup[/bold]", "[bold]markup[/bold]"),
    ],
)
def test_text_cannot_steer_the_terminal(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_tables_show_markup_as_text_and_never_wrap_when_piped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Output().table(
        [Column("name"), Column("size", is_numeric=True)],
        [("[red]x[/red]" * 30, 1), ("\x1b[2J", 20)],
        title="t",
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "t"
    assert lines[2].startswith("[red]x[/red]" * 30)
    assert lines[3].startswith("\\x1b[2J")
    assert len(lines) == 4


def test_json_comes_with_its_schema_version_first(capsys: pytest.CaptureFixture[str]) -> None:
    Output(is_json=True).json("thing", {"größe": 1})
    assert (
        capsys.readouterr().out
        == '{\n  "schema_version": "1.0",\n  "kind": "thing",\n  "größe": 1\n}\n'
    )


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2_000_000_000_000, "2.0 TB")],
)
def test_sizes_for_people(nbytes: int, text: str) -> None:
    assert nbytes_text(nbytes) == text


@pytest.mark.parametrize(
    ("duration_s", "text"), [(2.5e-4, "250 µs"), (0.0031, "3.1 ms"), (2.5, "2.5 s")]
)
def test_durations_for_people(duration_s: float, text: str) -> None:
    assert duration_text(duration_s) == text


EVIL = "a\x1b]0;title\x07b\u202ec\x9b2J"
ESCAPED = "a\\x1b]0;title\\x07b\\u202ec\\x9b2J"


def test_a_coloured_line_cannot_steer_the_terminal(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    Output().line(EVIL, style="bold red")
    Output().note(EVIL, style="yellow")
    Output().warning(EVIL)
    print_error(UsageError(EVIL), Output())
    print_findings([Finding(rule="R", document=EVIL, message=EVIL, remedy=EVIL)], Output())
    shown = terminal.getvalue()
    assert shown.count(ESCAPED) == 7
    assert "\x1b[1;31m" in shown
    assert not {"\x07", "\x9b", "\u202e"} & set(shown)
    assert "\x1b]" not in shown


def test_a_table_on_a_terminal_cannot_steer_it(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    Output().table([Column("name")], [(EVIL,)], title=EVIL)
    assert terminal.getvalue().count(ESCAPED) == 2
    assert "\x1b]" not in terminal.getvalue()


def test_json_on_a_terminal_cannot_steer_it_and_means_the_same(terminal: Terminal) -> None:
    Output(is_json=True).json("thing", {"name": EVIL})
    shown = terminal.getvalue()
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)
    assert json.loads(shown)["name"] == EVIL


@pytest.mark.parametrize("way", ["NO_COLOR", "TERM", "--no-color"])
def test_colours_can_be_refused(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    assert is_coloured(terminal)
    if way == "--no-color":
        configure(is_colorless=True)
    else:
        monkeypatch.setenv(way, "dumb")
    Output().line("line", style="bold red")
    Output().table([Column("name")], [("cell",)], title="title")
    Output().warning("careful")
    assert "\x1b" not in terminal.getvalue()


def test_an_empty_no_color_refuses_nothing(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    assert is_coloured(terminal)


def test_the_parts_of_a_line_have_their_own_styles_and_cannot_steer_the_terminal(
    terminal: Terminal,
) -> None:
    Output().spans([("a", "red"), (EVIL, "black on cyan"), ("c", "")])
    shown = terminal.getvalue()
    assert shown.startswith("\x1b[31ma\x1b[0m\x1b[30;46m")
    assert ESCAPED in shown
    assert shown.endswith("c\n")


def test_the_parts_of_a_line_are_plain_where_nobody_sees_colours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Output().spans([("a", "red"), (EVIL, ""), ("c", "black on cyan")])
    assert capsys.readouterr().out == f"a{ESCAPED}c\n"


def test_a_picture_has_the_room_of_the_terminal_or_plain_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert Output().room == (80, False, False)


def test_a_picture_on_a_terminal_has_its_width(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert terminal.isatty()
    monkeypatch.setenv("COLUMNS", "120")
    assert Output().room == (120, True, True)
