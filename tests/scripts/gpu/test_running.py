"""Commands of ``make gpu`` end within their time, with everything that they started."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from scripts.gpu.report import Outcome, Report
from scripts.gpu.running import Ended, Trial, run_bounded

_PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1], "w").write(str(child.pid))
time.sleep(600)
"""


def _trial(folder: Path, *, seconds: float = 60) -> Trial:
    return Trial(
        report=Report(folder=folder),
        python=sys.executable,
        work=folder,
        deadline_s=time.monotonic() + seconds,
        is_on_gpu=False,
        variables={"ONE": "1"},
        facts={},
    )


def _ended(out: str = "", code: int | None = 0, err: str = "") -> Ended:
    return Ended(code=code, out=out, err=err, duration_s=1.0)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    noted = tmp_path / "pid"

    ended = run_bounded([sys.executable, "-c", _PARENT, str(noted)], 5, os.environ)

    assert ended.code is None
    assert "did not end within" in ended.reason
    state = Path(f"/proc/{noted.read_text()}/stat")
    deadline_s = time.monotonic() + 60
    while state.is_file() and " Z " not in state.read_text() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not state.is_file() or " Z " in state.read_text()


def test_a_command_that_is_not_there_is_a_reason() -> None:
    ended = run_bounded(["/no/such/tool"], 5, os.environ)
    assert (ended.code, ended.is_done) == (127, False)


def test_variables_reach_the_command_and_its_output_the_log(tmp_path: Path) -> None:
    trial = _trial(tmp_path)
    ended = trial.run("probe", [trial.python, "-c", "import os; print(os.environ['ONE'])"], 30)

    assert ended.out == "1\n"
    assert "===== probe" in (tmp_path / "gpu_log.txt").read_text()


def test_what_has_no_time_left_is_not_tried(tmp_path: Path) -> None:
    trial = _trial(tmp_path, seconds=1)

    assert not trial.row("run", "CUDA", trial.ortpkg("run", "digits"))
    assert [row.outcome for row in trial.report.rows] == [Outcome.NOT_TRIED]


@pytest.mark.parametrize(
    ("ended", "outcome", "details"),
    [
        (_ended('{"a": 1}'), Outcome.YES, "a is 1"),
        (_ended('a line\n{"a": 1}\n'), Outcome.YES, "a is 1"),
        (_ended('{"a": 2}', code=1), Outcome.NO, "a is 2"),
        (_ended("", code=3, err="x\n\nno such device\n"), Outcome.NO, "exit code 3: x no such"),
        (_ended('{"b": 1}'), Outcome.NO, "KeyError: 'a'"),
        (_ended("nothing"), Outcome.NO, "TypeError"),
        (_ended(code=None), Outcome.NO, "it did not end within 1 s"),
    ],
)
def test_a_row_says_what_came_of_a_command(
    ended: Ended, outcome: Outcome, details: str, tmp_path: Path
) -> None:
    trial = _trial(tmp_path)
    trial.row("run", "", ended, lambda answer: (answer["a"] == 1, f"a is {answer['a']}"))

    (row,) = trial.report.rows
    assert row.outcome is outcome
    assert row.details.startswith(details)
