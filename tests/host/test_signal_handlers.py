"""Exceptions of signal handlers are told from those of the code that they interrupt."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ortpkg.foundations.errors import RunError
from ortpkg.foundations.host.signal_handlers import call_with_handlers_errors
from tests.host.signalled_program import HANDLERS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGUSR1")


def ends_well(case: str) -> bool:
    done = subprocess.run(
        [sys.executable, "-m", "tests.host.signalled_program", case],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )

    assert (done.returncode, done.stdout.strip()) == (0, "came out"), done.stderr
    return True


@pytest.mark.parametrize("handler", HANDLERS)
def test_a_handlers_exception_is_known_and_comes_out_as_it_is(handler: str) -> None:
    assert ends_well(handler)


def test_what_code_raises_by_itself_is_no_handlers() -> None:
    def fail(_number: int, _frame: object) -> None:
        raise SystemExit(3)

    def run() -> None:
        try:
            fail(1, None)
        except SystemExit as error:
            raise RunError("node 'a' failed") from error

    with pytest.raises(RunError, match="node 'a' failed"):
        call_with_handlers_errors(run)


def test_an_earlier_exception_of_a_handler_is_not_taken_for_a_later_error() -> None:
    assert ends_well("an earlier one")
