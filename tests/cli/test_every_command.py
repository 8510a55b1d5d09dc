"""No command without a test that calls it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ortpkg.cli.app import COMMANDS

TESTS = Path(__file__).parents[1]
#: Command → the file under ``tests`` that says what it does.
TESTED_IN = {
    "create": "cli/test_authoring_commands.py",
    "init": "cli/test_authoring_commands.py",
    "add-variant": "cli/test_authoring_commands.py",
    "remove-variant": "cli/test_authoring_commands.py",
    "edit": "cli/test_edit_and_samples_commands.py",
    "samples": "cli/test_edit_and_samples_commands.py",
    "dedup": "cli/test_weight_commands.py",
    "diff": "cli/test_weight_commands.py",
    "inspect": "cli/test_authoring_commands.py",
    "validate": "cli/test_validate_command.py",
    "explain": "cli/test_validate_command.py",
    "verify": "cli/test_verify_command.py",
    "pack": "cli/test_pack_commands.py",
    "unpack": "cli/test_pack_commands.py",
    "convert": "cli/test_rewriting_commands.py",
    "merge": "cli/test_rewriting_commands.py",
    "slim": "cli/test_rewriting_commands.py",
    "migrate-check": "cli/test_rewriting_commands.py",
    "select": "cli/test_select_command.py",
    "run": "cli/test_run_command.py",
    "plan": "cli/test_plan_command.py",
    "bench": "benchmarking/test_bench.py",
    "compile": "ep_context/test_compile.py",
    "compile-models": "ep_context/test_compile.py",
    "cache": "ep_context/test_cache.py",
    "quarantine": "benchmarking/test_canary.py",
    "devices": "cli/test_devices_command.py",
    "doctor": "cli/test_doctor_command.py",
    "settings": "cli/test_settings.py",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_called_by_its_tests(command: str) -> None:
    assert command in TESTED_IN, f"ortpkg {command} has no tests that are named here"
    text = (TESTS / TESTED_IN[command]).read_text("utf-8")
    assert re.search(rf'\(\[?\s*"{command}"\s*[],)]', text), f"{TESTED_IN[command]} never calls it"


def test_every_command_that_is_named_exists() -> None:
    assert TESTED_IN.keys() <= COMMANDS.keys()
