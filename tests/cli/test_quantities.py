"""Sizes and durations have the same units wherever an option takes one."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, get_args

import pytest
import typer

from ortpkg.cli.app import COMMANDS, run
from ortpkg.cli.quantity_arguments import duration_argument, nbytes_argument
from ortpkg.foundations.quantities import amount_text, limit_text, time_limit_text
from tests.cli.conftest import DIGITS, RunCommand


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 5),
        ("5s", 5),
        ("1.5 s", 1.5),
        ("5ms", 0.005),
        ("200us", 2e-4),
        ("10min", 600),
        ("2h", 7200),
        (3.0, 3),
    ],
)
def test_durations(text: str | float, seconds: float) -> None:
    assert duration_argument(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("1024", 1024),
        ("64kB", 64_000),
        ("64KB", 64_000),
        ("1GB", 10**9),
        ("1.5GiB", 3 << 29),
        (7, 7),
    ],
)
def test_sizes(text: str | int, nbytes: int) -> None:
    assert nbytes_argument(text) == nbytes


@pytest.mark.parametrize(
    "text", ["", "soon", "0", "0s", "-1s", "5 parsecs", "1e3s", "nan", "inf", "1GB"]
)
def test_refuses_what_is_no_duration(text: str) -> None:
    with pytest.raises(
        typer.BadParameter,
        match=r"is no duration above 0; write e\.g\. 5ms, 90s or 10min; a number alone is seconds",
    ):
        duration_argument(text)


@pytest.mark.parametrize("text", ["", "much", "0", "0 MB", "-1", "5s", "1e9", "0.1B"])
def test_refuses_what_is_no_size(text: str) -> None:
    with pytest.raises(
        typer.BadParameter,
        match=r"is no size above 0; write e\.g\. 64kB, 500MB or 1\.5GiB; a number alone is bytes",
    ):
        nbytes_argument(text)


@pytest.mark.parametrize(
    "text",
    [
        "0 B",
        "1 B",
        "999 B",
        "1.5 kB",
        "64 kB",
        "64 KiB",
        "300 MB",
        "1 MiB",
        "1.5 GiB",
        "512 MiB",
        "2.125 GB",
    ],
)
def test_limits_of_memory_are_told_as_they_may_be_written(text: str) -> None:
    assert limit_text(0 if text == "0 B" else nbytes_argument(text)) == text


def test_what_passes_a_limit_of_memory_looks_like_it() -> None:
    assert (limit_text(300_000_001), amount_text(300_000_002)) == ("300.0 MB", "300.1 MB")
    assert (limit_text(1 << 40), amount_text((1 << 40) + 1)) == ("1 TiB", "1.1 TB")
    assert amount_text(999) == "999 B"


@pytest.mark.parametrize("text", ["2 ms", "0.5 s", "12.3 ms", "90 s", "10 min", "4.25 s", "0 s"])
def test_limits_of_time_are_told_as_they_may_be_written(text: str) -> None:
    assert time_limit_text(0 if text == "0 s" else duration_argument(text)) == text


def test_limits_of_a_run_are_given_in_units(ortpkg: RunCommand, few_digits: Path) -> None:
    words = ("run", few_digits, "--backend", "embedded")
    assert ortpkg(*words, "--timeout", "2min", "--memory-limit", "2GB").code == 0
    assert "time limit of 2 ms" in ortpkg(*words, "--timeout", "2ms").err
    assert "memory limit of 1.5 kB" in ortpkg(*words, "--memory-limit", "1.5kB").err


def _options() -> list[tuple[str, str, Any]]:
    """(command, option, its declaration) of every option of every command."""
    found = []
    for name, module in COMMANDS.items():
        function = __import__(module, fromlist=["command"]).command
        for parameter in inspect.signature(function, eval_str=True).parameters.values():
            declared = get_args(parameter.annotation)[-1:]
            found += [
                (name, parameter.name, each)
                for each in declared
                if isinstance(each, typer.models.OptionInfo)
            ]
    return found


def test_no_option_counts_seconds_or_bytes_by_itself() -> None:
    options = _options()
    assert len(options) > 100
    for command, name, option in options:
        where = f"{command} {name}"
        assert option.metavar not in {"S", "SECONDS", "BYTES"} or name == "compatibility_info", (
            where
        )
        if option.metavar == "SIZE" and option.parser is None:
            # parsed by what they are given to
            assert name in {"max_memory", "max_size", "keep"}, where


@pytest.mark.parametrize("option", ["--max-size", "--max-memory"])
def test_limits_of_a_choice_have_the_same_units(option: str) -> None:
    assert run(["-q", "select", str(DIGITS), option, "1GB"]) == 0
    assert run(["-q", "select", str(DIGITS), option, "soon"]) == 2
