"""Try ortpkg on this machine's GPU, or the same steps on its CPU.

    python3 -m scripts.gpu --wheels FOLDER --report FOLDER

Needs no network, no pip index and no ortpkg that is installed; exits with 0 once the table is
written, whatever is in it, and with 1 where a row says no and ``--strict`` is given.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from scripts.gpu.environment import Environment, make_environment
from scripts.gpu.report import Outcome, Report, Row
from scripts.gpu.running import Trial
from scripts.gpu.steps import STEPS, has_nvidia_gpu


def main(arguments: list[str] | None = None) -> int:
    wishes = _parser().parse_args(arguments)
    started_s = time.monotonic()
    report = Report(folder=Path(wishes.report).absolute())
    work = Path(tempfile.mkdtemp(prefix="ortpkg-gpu-", dir=wishes.work)).absolute()
    try:
        is_on_gpu = wishes.on == "gpu" or (wishes.on == "auto" and has_nvidia_gpu())
        environment = _environment(report, work, wishes)
        trial = Trial(
            report=report,
            python=environment.python,
            work=work,
            deadline_s=started_s + wishes.seconds,
            is_on_gpu=is_on_gpu,
            variables=_variables(work, environment.python_path),
            facts={"big_nbytes": wishes.big_nbytes},
        )
        _try_steps(trial, wishes.only)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    report.write()
    counts = ", ".join(
        f"{sum(row.outcome is outcome for row in report.rows)} {outcome.value}"
        for outcome in Outcome
    )
    print(f"{counts}; {time.monotonic() - started_s:.0f} s; {report.folder / 'gpu_report.md'}")
    failed = any(row.outcome is Outcome.NO for row in report.rows)
    return 1 if wishes.strict and failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m scripts.gpu", description=__doc__)
    parser.add_argument("--wheels", help="folder of wheels: onnxruntime-gpu, EPs, what is missing")
    parser.add_argument("--report", default="build/gpu", help="folder of the report")
    parser.add_argument("--on", choices=("auto", "gpu", "cpu"), default="auto")
    parser.add_argument("--seconds", type=float, default=470.0, help="limit of everything")
    parser.add_argument("--only", nargs="*", default=[], help="names of steps; default: all")
    parser.add_argument("--work", help="folder for what is large; default: the system's")
    parser.add_argument(
        "--big-nbytes", type=int, default=0, help="weights of the big model; default: by machine"
    )
    parser.add_argument("--here", action="store_true", help="use this Python, make no environment")
    parser.add_argument("--strict", action="store_true", help="exit code 1 where a row says no")
    return parser


def _environment(report: Report, work: Path, wishes: argparse.Namespace) -> Environment:
    if wishes.here:
        return Environment(sys.executable, "", "this Python")
    start_s = time.monotonic()
    wheels = None if wishes.wheels is None else Path(wishes.wheels)
    try:
        environment, outcome = make_environment(work / "environment", wheels), Outcome.YES
    except Exception as error:  # noqa: BLE001 - the row says what; the machine's own Python goes on
        environment, outcome = Environment(sys.executable, "", str(error)), Outcome.NO
    duration_s = time.monotonic() - start_s
    row = Row(
        step="environment", outcome=outcome, details=environment.details, duration_s=duration_s
    )
    report.add(row)
    return environment


def _variables(work: Path, python_path: str) -> dict[str, str]:
    return {
        "ORTPKG_CACHE_DIR": str(work / "cache"),
        "ORTPKG_STATE_DIR": str(work / "state"),
        "ORTPKG_PROBE_TIMEOUT": "90s",
        "COLUMNS": "200",
        "NO_COLOR": "1",
        "PYTHONPATH": python_path,
        "PYTHONUNBUFFERED": "1",
    }


def _try_steps(trial: Trial, only: list[str]) -> None:
    for name, step in STEPS.items():
        if only and name not in only:
            continue
        start_s = time.monotonic()
        try:
            step(trial)
        except Exception as error:  # noqa: BLE001 - one step that fails is a row; the others go on
            details = f"{type(error).__name__}: {error}"
            duration_s = time.monotonic() - start_s
            trial.report.add(
                Row(step=name, outcome=Outcome.NO, details=details, duration_s=duration_s)
            )


if __name__ == "__main__":
    sys.exit(main())
