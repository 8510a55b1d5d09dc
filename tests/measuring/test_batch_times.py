"""How long runs of several rows take: measured, recorded, found again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import ortpkg
from ortpkg.api.bench.benchmark import BenchWishes, bench
from ortpkg.graph.model_signature import read_model_signature
from ortpkg.runtime.providers.machine_offer import this_machine
from ortpkg.selection.matching.measurements import Measurement
from ortpkg.selection.measuring.batch_times import (
    Arrays,
    can_be_joined,
    measure_batches,
    recorded_batch_times,
)
from ortpkg.selection.measuring.measured_candidates import Plan
from ortpkg.selection.measuring.record_format import (
    MachineRecord,
    PackageRecord,
    RecordFormatError,
    dump_record,
    parse_record,
)

_RECORD = PackageRecord(
    name="scale",
    digest="sha256:0",
    machines=(
        MachineRecord(
            fingerprint={},
            recorded_at="2026-01-02T03:04:05+00:00",
            measurements=(
                Measurement(
                    component_name="model",
                    variant_name="a",
                    ep_name="CPUExecutionProvider",
                    backend="embedded",
                    device="cpu",
                    p50_s=0.5,
                    p95_s=0.5,
                    throughput_per_s=2.0,
                    cold_start_s=1.0,
                    first_run_s=1.0,
                    batch_times=((1, 0.5), (8, 1.0)),
                ),
            ),
        ),
    ),
)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock whose time is its only entry."""
    now = [0.0]
    monkeypatch.setattr("ortpkg.selection.measuring.batch_times.time.perf_counter", lambda: now[0])
    return now


def test_rows_are_repeated_and_the_first_run_of_each_number_does_not_count(
    clock: list[float],
) -> None:
    seen: list[list[int]] = []

    def run(inputs: Arrays) -> None:
        rows = inputs["x"][:, 0].tolist()
        clock[0] += 100.0 if rows not in seen else 0.5 * len(rows)
        seen.append(rows)

    feed = {"x": np.arange(6).reshape(2, 3)}
    assert measure_batches(run, feed, (1, 3), most_s=1e6) == {1: 0.5, 3: 1.5}
    assert [rows for rows in seen if len(rows) == 3] == [[0, 3, 0]] * 6


def test_no_run_is_begun_when_the_time_is_up(clock: list[float]) -> None:
    def run(inputs: Arrays) -> None:
        clock[0] += len(inputs["x"])

    feed = {"x": np.zeros((1, 1))}
    assert measure_batches(run, feed, (1, 4, 8), most_s=14) == {1: 1.0, 4: 4.0}


def test_more_rows_are_not_measured_where_that_is_enough(clock: list[float]) -> None:
    def run(inputs: Arrays) -> None:
        clock[0] += len(inputs["x"])

    found = measure_batches(
        run,
        {"x": np.zeros((1, 1))},
        (1, 2, 4),
        most_s=1e6,
        is_enough=lambda times: max(times.values()) >= 2,
    )
    assert found == {1: 1.0, 2: 2.0}


def test_a_benchmark_records_them_and_a_later_one_without_keeps_them(scale_package: Path) -> None:
    package = ortpkg.ModelPackage(scale_package)
    verdict = package.best_variant().verdict(backend="embedded")
    offer = this_machine()
    embedded = BenchWishes(backend="embedded")
    plan = Plan(rounds=1, repeat=1, duration_s=0.0)
    assert recorded_batch_times(package.info, verdict, offer) == {}
    bench(package, embedded, replace(plan, batch_rows=(1, 4)))
    found = recorded_batch_times(package.info, verdict, offer)
    assert list(found) == [1, 4]
    assert all(time_s > 0 for time_s in found.values())
    bench(package, embedded, plan)
    assert recorded_batch_times(package.info, verdict, offer) == found


@pytest.mark.parametrize(
    "damage",
    ["[[8, 0.1], [1, 0.2]]", "[[0, 0.1]]", "[[1, -1]]", "[[1]]", "[[1, 2, 3]]", "7", "[1]"],
)
def test_what_is_damaged_is_no_record(damage: str) -> None:
    text = dump_record(_RECORD)
    assert parse_record(text.encode()) == _RECORD
    document = json.loads(text)
    (measurement,) = document["machines"][0]["measurements"]
    measurement["batch_times"] = json.loads(damage)
    with pytest.raises(RecordFormatError, match="batch_times"):
        parse_record(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ("(float[N, 4] x) => (float[N, 4] y) { y = Neg (x) }", True),
        ("(float[?, 4] x) => (float[?, 4] y) { y = Neg (x) }", True),
        ("(float[1, 4] x) => (float[N, 4] y) { y = Neg (x) }", False),
        ("(float[N, 4] x) => (float[M, N] y) { y = Transpose (x) }", False),
        ("(float[?, 4] x) => (float[?, ?] y) { y = Transpose (x) }", False),
        ("(float[?, 4] x) => (int64[?, ?] y) { z = NonZero (x) y = Transpose (z) }", False),
        (
            "(float[N, 4] x, float[M, 4] z) => (float[N, M] y) { t = Transpose (z) y = MatMul (x, t) }",
            False,
        ),
        ("(float[N, 4] x) => (float y) { y = ReduceSum <keepdims = 0> (x) }", False),
        ("() => (float[4] y) { y = Constant <value = float[4] {0, 0, 0, 0}> () }", False),
    ],
)
def test_what_can_be_joined(tmp_path: Path, graph: str, expected: bool) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(
        onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> model {graph}'), path
    )
    declared = read_model_signature(path)
    assert can_be_joined(declared.inputs, declared.outputs, {"": path}) is expected
