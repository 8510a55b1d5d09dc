"""Runs models that people really ship on ours beside onnxruntime, and writes their table.

``python -m tests.real [NAME ...] [--folder DIRECTORY] [--timeout SECONDS]``. Each model and runtime
has a process of its own. Each row goes into the table of benchmarks/README.md, between its marks,
as soon as it is measured; rows of other models stay. Exit status 1 where an answer is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.real.measure import RUNTIMES
from tests.real.models import MINILM, MODELS, RealModel, missing

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "benchmarks" / "README.md"
BEGIN, END = "<!-- real models: made by make real -->", "<!-- end of real models -->"
_HEAD = (
    "| model | runs on | error | task right | × onnxruntime | opens in | claimed | partitions |",
    "|---|---|---|---|---|---|---|---|",
)
_MOST_REASON = 120
#: What a machine's settings of threads would change.
_UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "ORTPKG_PROVIDERS", "PYTHONUNBUFFERED")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.real", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="rows that begin so; all by default"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "real-models")
    parser.add_argument("--timeout", type=float, default=240.0, help="seconds for one measurement")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    chosen = [
        model
        for model in MODELS
        if not options.names or model.name.startswith(tuple(options.names))
    ]
    rows = written_rows()
    are_right = True
    for model in chosen:
        for runtime in RUNTIMES:
            answer = answer_of(model, runtime, options.folder, options.timeout)
            are_right = are_right and answer.get("task", True)
            rows[model.name, runtime] = row(model.name, runtime, answer)
            print(rows[model.name, runtime], flush=True)
            write_table(rows)
    return 0 if are_right else 1


def answer_of(model: RealModel, runtime: str, folder: Path, timeout_s: float) -> Mapping[str, Any]:
    """What a measurement printed, or why there is none, as "failure"."""
    reason = missing(model)
    if model.file.endswith(".safetensors") and not reason and not (folder / MINILM).exists():
        reason = "torch and transformers are not installed to export it"
    if reason:
        return {"failure": reason}
    command = [sys.executable, "-m", "tests.real.measure", model.name, runtime, str(folder)]
    environment = {name: value for name, value in os.environ.items() if name not in _UNSET}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, env=environment, cwd=ROOT,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"failure": f"took more than {timeout_s:g} s"}
    if done.returncode:
        last = next(iter(reversed(done.stderr.strip().splitlines())), f"status {done.returncode}")
        return {"failure": last}
    answer: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def row(name: str, runtime: str, answer: Mapping[str, Any]) -> str:
    """A line of the table."""
    if "failure" in answer:
        reason = answer["failure"][:_MOST_REASON].replace("|", "/")
        return f"| {name} | {runtime} | {reason} | – | – | – | – | – |"
    error = "other length" if answer["error"] is None else f"{answer['error']:.1e}"
    where = runtime if runtime != "default" else f"default ({_short(answer['provider'])})"
    cells = (
        name, where, error, "yes" if answer["task"] else "**no**", f"{answer['ratio']:.2f}",
        f"{answer['open_s']:.1f} s", f"{answer['share']:.0%}", str(answer["partitions"]),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _short(provider: str) -> str:
    return provider.removesuffix("ExecutionProvider")


def written_rows() -> dict[tuple[str, str], str]:
    """Lines of the table as it stands, by model and runtime."""
    table = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    cells = {line: [cell.strip() for cell in line.split("|")] for line in table.splitlines()}
    return {
        (parts[1], parts[2].partition(" ")[0]): line
        for line, parts in cells.items()
        if len(parts) > _HEAD[0].count("|") and line not in _HEAD
    }


def write_table(rows: Mapping[tuple[str, str], str]) -> None:
    """Puts the rows between their marks in the document, in the order of the models."""
    text = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    keys = [(model.name, runtime) for model in MODELS for runtime in RUNTIMES]
    lines = [rows[key] for key in keys if key in rows]
    table = "\n".join((BEGIN, "", *_HEAD, *lines, "", END))
    DOCUMENT.write_text(before + table + after, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
