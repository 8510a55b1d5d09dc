"""What is printed is safe, readable and stable."""

from __future__ import annotations

import pytest

from ortpkg.cli.rendering import Column, Output, duration_text, nbytes_text, plain


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


def test_tables_show_markup_as_text_and_never_wrap_when_piped(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table(
        [Column("name"), Column("size", is_numeric=True)], [("[red]x[/red]" * 30, 1), ("\x1b[2J", 20)], title="t"
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "t"
    assert lines[2].startswith("[red]x[/red]" * 30)
    assert lines[3].startswith("\\x1b[2J")
    assert len(lines) == 4


def test_json_comes_with_its_schema_version_first(capsys: pytest.CaptureFixture[str]) -> None:
    Output(is_json=True).json("thing", {"größe": 1})
    assert capsys.readouterr().out == '{\n  "schema_version": "1.0",\n  "kind": "thing",\n  "größe": 1\n}\n'


@pytest.mark.parametrize(
    ("nbytes", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2_000_000_000_000, "2.0 TB")]
)
def test_sizes_for_people(nbytes: int, text: str) -> None:
    assert nbytes_text(nbytes) == text


@pytest.mark.parametrize(("duration_s", "text"), [(2.5e-4, "250 µs"), (0.0031, "3.1 ms"), (2.5, "2.5 s")])
def test_durations_for_people(duration_s: float, text: str) -> None:
    assert duration_text(duration_s) == text
