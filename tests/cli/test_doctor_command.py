"""``ortpkg doctor``: on this machine, and with a backend that is broken."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from ortpkg.api.doctor import situation
from ortpkg.api.doctor.diagnosis import doctor
from ortpkg.cli import doctor as doctor_command
from tests.cli.conftest import RunCommand


def _examining(monkeypatch: pytest.MonkeyPatch, **facts: Any) -> None:
    """Lets the command examine this machine with ``facts`` changed."""
    here = replace(
        situation.gather(),
        **{"failures": (), "refused_libraries": {}, "overlapping": (), "device_files": (), **facts},
    )
    monkeypatch.setattr(doctor_command, "doctor", lambda: doctor(here))


def test_it_shows_the_machine_its_providers_and_versions(ortpkg: RunCommand) -> None:
    done = ortpkg("doctor")

    assert done.code in (0, 1)
    titles = [line for line in done.out.splitlines() if not line.startswith(" ")]
    assert titles == [
        *(
            "platform",
            "software",
            "hardware",
            "notes",
            "execution providers",
            "plug-ins",
            "device files",
        ),
        *("environment", "complaints"),
    ]
    assert "CPUExecutionProvider (embedded" in done.out


def test_the_block_for_a_bug_report_is_the_same_text_in_a_fence(ortpkg: RunCommand) -> None:
    lines = ortpkg("doctor", "--markdown").out.splitlines()

    assert lines[:3] == ["### ortpkg doctor", "", "```text"]
    assert lines[-1] == "```"
    assert "complaints" in lines


def test_json_has_the_same_facts(ortpkg: RunCommand) -> None:
    listed = ortpkg("doctor", "--json").json

    assert listed["kind"] == "doctor"
    assert listed["software"]["numpy"]
    assert listed["hardware"][0]["type"] == "cpu"
    assert isinstance(listed["complaints"], list)


@pytest.mark.parametrize(
    ("facts", "words", "code"),
    [
        ({}, [], 0),
        ({"failures": ("it was ended by SIGSEGV",)}, [], 1),
        ({"is_cache_usable": False}, [], 0),
        ({"is_cache_usable": False}, ["--strict"], 1),
        ({"usable_cores": 1}, ["--strict"], 0),
    ],
)
def test_the_exit_code_tells_whether_something_cannot_be_used(
    ortpkg: RunCommand,
    monkeypatch: pytest.MonkeyPatch,
    facts: dict[str, Any],
    words: list[str],
    code: int,
) -> None:
    _examining(monkeypatch, **facts)

    assert ortpkg("doctor", *words).code == code


def test_text_of_a_driver_cannot_steer_the_terminal(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    _examining(monkeypatch, failures=("it said \x1b[2J",))

    for words in ([], ["--markdown"]):
        done = ortpkg("doctor", *words)
        assert "\x1b" not in done.out
        assert "it said \\x1b[2J" in done.out


def test_two_forms_at_once_are_a_usage_error(ortpkg: RunCommand) -> None:
    assert ortpkg("doctor", "--markdown", "--json").code == 2


def test_sizes_are_said_as_everywhere(ortpkg: RunCommand) -> None:
    lines = ortpkg("doctor").out.splitlines()
    cpu = lines[lines.index("hardware") + 1]
    assert re.search(r"\d+\.\d [GT]B \(\d+\.\d [GMT]B free\)", cpu), cpu
