"""plan: the map of who runs each step, and the chart of bytes in use."""

from __future__ import annotations

import re

import pytest

from ortpkg.cli.plan_pictures import print_memory_chart, print_partition_map
from ortpkg.cli.rendering import Output
from tests.cli.conftest import DIGITS, RunCommand, Terminal
from tests.session.planned_graphs import planned_graph, planned_value

_CPU, _OPENVINO = "CPUExecutionProvider", "OpenVINOExecutionProvider"


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_each_step_has_the_letter_of_who_runs_it(capsys: pytest.CaptureFixture[str]) -> None:
    graph = planned_graph(4, [], providers=[_CPU, _OPENVINO, _OPENVINO, _CPU])
    print_partition_map(graph, Output())
    assert _lines(capsys) == [
        "who runs each step: A cpu (2), B openvino (2)",
        "A-------B-------B-------A-------",
    ]


def test_more_steps_than_characters_share_letters_and_islands_stay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    graph = planned_graph(400, [], providers=[*[_CPU] * 203, _OPENVINO, _CPU])
    print_partition_map(graph, Output())
    legend, cells = _lines(capsys)
    assert legend == (
        "who runs each step: A cpu (399), B openvino (1) (several steps share a letter)"
    )
    assert cells == "A" * 40 + "B" + "A" * 39


def test_a_terminal_sees_colours_and_lines_of_unicode(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    graph = planned_graph(2, [planned_value("a", (0, 100), (0, 0))], providers=[_CPU, _OPENVINO])
    print_partition_map(graph, Output())
    print_memory_chart(graph, Output())
    shown = terminal.getvalue()
    assert "\x1b[30;46mA───────\x1b[0m\x1b[30;43mB───────\x1b[0m\n" in shown
    assert "\x1b[31m████████\x1b[0m" in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "↑ most in use at step 0 (Op0): 100 B\n" in plain


def test_the_chart_says_where_most_is_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    values = [planned_value("a", (0, 1000), (0, 3)), planned_value("b", (1000, 2000), (2, 2))]
    print_memory_chart(planned_graph(5, values), Output())
    assert _lines(capsys) == [
        "                ########",
        "                ########",
        "################################",
        "                ^ most in use at step 2 (Op2): 3.0 kB",
    ]


@pytest.mark.parametrize(
    ("step", "lines"),
    [
        (0, ["↑ most in use at step 0 (Op0): 9 B"]),
        (37, ["  most in use at step 37 (Op37): 9 B ↑"]),
        (20, ["                    ↑", "most in use at step 20 (Op20): 9 B"]),
    ],
)
def test_the_mark_stands_under_its_column_and_its_words_have_room(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, step: int, lines: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    print_memory_chart(planned_graph(40, [planned_value("a", (0, 9), (step, step))]), Output())
    assert terminal.getvalue().splitlines()[3:] == lines


def test_nothing_is_drawn_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for graph in (planned_graph(0, []), planned_graph(3, [])):
        print_memory_chart(graph, Output())
    print_partition_map(planned_graph(0, []), Output())
    assert _lines(capsys) == []


def test_names_of_strangers_cannot_steer_the_terminal(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    evil = "\x1b]0;title\x07\u202e" + "x" * 500
    print_partition_map(planned_graph(2, [], providers=[evil]), Output())
    shown = terminal.getvalue()
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert max(map(len, shown.splitlines())) < 120


def test_plan_prints_both_in_plain_letters_when_piped(ortpkg: RunCommand) -> None:
    done = ortpkg("plan", DIGITS, "--variant", "cpu-fp32", "--dim", "batch=8")
    lines = done.out.splitlines()
    map_line = lines.index("who runs each step: A cpu (10)") + 1
    assert lines[map_line] == "A-------" * 10
    assert "                ^ most in use at step 2 (Conv): 98.3 kB" in lines
    assert done.out.isascii()
    assert all(line == line.rstrip() for line in lines)
