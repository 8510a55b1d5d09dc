"""``ortpkg batch`` and ``PackageModel`` against a script for Ray Data with onnxruntime by hand.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python -m benchmarks.batches
    [--rows 400000] [--workers 2] [--rounds 5] [--scaling 1 2 4]

It needs the extra ``ray`` and onnxruntime. Rows of digits come from a Parquet file and go to
others. All run on one cluster of this machine, one after another in every round, so that its start
counts for nobody; what starts workers, reads, runs and writes does. How the command scales with its
workers is timed before, on clusters of its own. Goal: 0.95 times the
rows a second of the script.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.parquet as pq

from ortpkg.cli.app import run
from ortpkg.scale.ray import PackageModel
from ortpkg.scale.ray.cluster import load_ray

_ROOT = Path(__file__).resolve().parents[1]
_PACKAGE = _ROOT / "sample_packages/digits.ortpackage"
_VARIANT = "cpu-fp32"
_MODEL = _PACKAGE / "models/classifier" / _VARIANT / "model.onnx"
_CHOICE = ("--variant", _VARIANT, "--backend", "onnxruntime")
_SHAPE = (1, 8, 8)
_BATCH = 1024
_GOAL = 0.95
#: Where parts are timed: so many, of so few rows each.
_PARTS, _PART_ROWS = 200, 10
BY_HAND, CLASS, COMMAND = "by hand", "PackageModel", "ortpkg batch"


class OnnxModel:
    """What people write without ortpkg."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            _MODEL, options, providers=["CPUExecutionProvider"]
        )

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        pixels = np.stack(batch["image"]).reshape(-1, *_SHAPE)
        (logits,) = self._session.run(["logits"], {"image": pixels})
        return {"row": batch["row"], "logits": logits}


def write_rows(path: Path, count: int) -> None:
    """So many pictures of digits, as noise, each a list of numbers."""
    pixels = np.random.default_rng(20).random((count, 64), np.float32)
    images = pa.FixedSizeListArray.from_arrays(pa.array(pixels.ravel()), 64)
    table = pa.table({"row": pa.array(np.arange(count)), "image": images})
    pq.write_table(table, path, row_group_size=65_536)


def by_class(made: Callable[..., Any], rows: Path, out: Path, workers: int, **given: Any) -> float:
    """Ray Data's own pipeline with a class; the seconds."""
    data = load_ray().data
    began_s = time.perf_counter()
    data.read_parquet(str(rows), override_num_blocks=2 * workers).map_batches(
        made,
        compute=data.ActorPoolStrategy(size=workers),
        num_cpus=1,
        batch_size=_BATCH,
        **given,
    ).write_parquet(str(out))
    return time.perf_counter() - began_s


def by_command(rows: Path, out: Path, workers: int, *options: str) -> float:
    """The command on the same cluster; the seconds that it says its rows took."""
    words = ["batch", str(_PACKAGE), "--input", str(rows), "--output", str(out), "--keep", "row"]
    own = ["--workers", str(workers), "--batch-size", str(_BATCH), "--json"]
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        code = run([*words, *own, *_CHOICE, *options])
    assert code == 0, told.getvalue()
    return float(json.loads(told.getvalue().splitlines()[-1])["elapsed_s"])


def by_own_cluster(rows: Path, out: Path, workers: int) -> float:
    """The command, with a cluster of its own; the seconds that it says its rows took."""
    words = ["batch", str(_PACKAGE), "--input", str(rows), "--output", str(out), "--keep", "row"]
    own = ["--workers", str(workers), "--batch-size", str(_BATCH), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "ortpkg", *words, *own, *_CHOICE],
        cwd=_ROOT,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return float(json.loads(done.stdout.splitlines()[-1])["elapsed_s"])


def show_costs(scratch: Path) -> None:
    """Prints what a batch takes beside its rows: for its workers' start, and for each part."""
    took_s = {1: 0.0, _PARTS: 0.0}
    for parts in took_s:
        rows = scratch / f"{parts}.parquet"
        write_rows(rows, parts * _PART_ROWS)
        out = Path(tempfile.mkdtemp(dir=scratch)) / "out"
        took_s[parts] = by_command(rows, out, 1, "--part-rows", str(_PART_ROWS))
    part_s = (took_s[_PARTS] - took_s[1]) / (_PARTS - 1)
    print(
        f"1 worker, 1 part: {took_s[1]:.1f} s; each further part of few rows: {1e3 * part_s:.0f} ms"
    )


def measure(
    contenders: Mapping[str, Callable[[Path], float]], rounds: int, count: int, scratch: Path
) -> dict[str, list[float]]:
    """Rows a second of each in each round, after one that does not count."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, write in contenders.items():
            out = Path(tempfile.mkdtemp(dir=scratch)) / "out"
            took_s = write(out)
            if number:
                rates[name].append(count / took_s)
            _check(out, count)
    return rates


def _check(out: Path, count: int) -> None:
    """Every row is there once."""
    rows = np.sort(np.concatenate([pq.read_table(each)["row"] for each in out.glob("*.parquet")]))
    np.testing.assert_array_equal(rows, np.arange(count))


def show(rates: Mapping[str, list[float]], baseline: str, goal: float | None) -> None:
    """Prints a line for each."""
    for name, own in rates.items():
        ratios = sorted(mine / theirs for mine, theirs in zip(own, rates[baseline], strict=True))
        ratio = statistics.median(ratios)
        verdict = "" if goal is None else f": {'met' if ratio >= goal else 'missed'}"
        print(
            f"{name:14}{statistics.median(own):9.0f} rows/s, {ratio:.2f} times {baseline}"
            f" ({ratios[0]:.2f} to {ratios[-1]:.2f}){verdict}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scaling", nargs="*", type=int, default=[1, 2, 4])
    arguments = parser.parse_args()
    os.environ["PYTHONPATH"] = str(_ROOT)
    ray = load_ray()
    with tempfile.TemporaryDirectory(prefix="rows-") as folder:
        scratch, rows = Path(folder), Path(folder, "rows.parquet")
        write_rows(rows, arguments.rows)
        if arguments.scaling:
            _show_scaling(arguments, rows, scratch)
        os.environ["RAY_TMPDIR"] = folder
        # A worker of a core each, and one for readers and writers, whatever the machine has.
        ray.init(num_cpus=arguments.workers + 1, include_dashboard=False, log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        try:
            _compare(arguments, rows, scratch)
        finally:
            ray.shutdown()


def _show_scaling(arguments: argparse.Namespace, rows: Path, scratch: Path) -> None:
    print(f"{COMMAND} with 1 worker and more; this machine has {os.cpu_count()} cores")
    scaling: dict[str, Callable[[Path], float]] = {
        f"{count} workers": partial(by_own_cluster, rows, workers=count)
        for count in arguments.scaling
    }
    first = next(iter(scaling))
    show(measure(scaling, arguments.rounds, arguments.rows, scratch), first, None)


def _compare(arguments: argparse.Namespace, rows: Path, scratch: Path) -> None:
    workers = arguments.workers
    package = {
        "fn_constructor_args": [str(_PACKAGE)],
        "fn_constructor_kwargs": {
            "variant": _VARIANT,
            "backend": "onnxruntime",
            "batch_size": _BATCH,
            "threads": 1,
        },
    }
    contenders: dict[str, Callable[[Path], float]] = {
        BY_HAND: lambda out: by_class(OnnxModel, rows, out, workers),
        CLASS: lambda out: by_class(PackageModel, rows, out, workers, **package),
        COMMAND: lambda out: by_command(rows, out, workers),
    }
    print(f"{arguments.rows} rows of digits, {workers} workers of a thread each")
    show(measure(contenders, arguments.rounds, arguments.rows, scratch), BY_HAND, _GOAL)
    show_costs(scratch)


if __name__ == "__main__":
    main()
