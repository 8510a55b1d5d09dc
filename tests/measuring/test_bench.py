"""``ortpkg bench`` as its users meet it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import onnx
import onnx.helper
import onnx.parser
import pytest
from onnx import numpy_helper

import ortpkg
from ortpkg.api.bench.benchmark import BenchReport, BenchWishes, bench
from ortpkg.cli.app import run as run_command_line
from ortpkg.cli.bench import _print_result
from ortpkg.cli.rendering import Output
from ortpkg.foundations.errors import UsageError
from ortpkg.foundations.isolation.child import ChildOutcome, ChildResult, call_in_child
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.runtime.providers.machine_offer import this_machine
from ortpkg.selection.measuring import child_worker, measure
from ortpkg.selection.measuring.bench_candidate import BenchCandidate, thread_options
from ortpkg.selection.measuring.measure import measure_candidates, run_once
from ortpkg.selection.measuring.measured_candidates import CandidateResult, Outcome, Plan, Workload
from ortpkg.selection.measuring.record_store import load_records
from tests.measuring.conftest import (
    DIGITS,
    FAULTY_EP,
    CommandLine,
    LineMaker,
    add_samples,
    scale_model,
)

_QUICK = Plan(rounds=1, repeat=3, duration_s=0.0)
_EMBEDDED = EpDevice(ep_name="CPUExecutionProvider", device=None, backend="embedded")


@pytest.fixture
def run(tmp_path: Path, command_line: LineMaker) -> CommandLine:
    return command_line(tmp_path / "line")


def test_measures_every_variant_on_every_backend_of_this_machine() -> None:
    package = ortpkg.ModelPackage(DIGITS)
    report = bench(package, plan=_QUICK)
    eligible = {
        (verdict.variant.name, verdict.ep_device.backend)
        for verdict in package.select().verdicts
        if verdict.is_eligible and verdict.ep_device is not None
    }
    measured = {
        (each.candidate.variant_name, each.candidate.ep_device.backend) for each in report.results
    }
    assert measured == eligible
    assert {each.outcome for each in report.results} == {Outcome.MEASURED}
    for result in report.results:
        assert result.distance is not None
        assert result.distance.is_within is True  # by the tolerance for its own variant
        assert result.compared == 64
        assert result.peak_memory_nbytes is None or result.peak_memory_nbytes > 1_000_000


def test_what_was_measured_is_what_a_selection_finds() -> None:
    package = ortpkg.ModelPackage(DIGITS)
    report = bench(package, BenchWishes(backend="embedded"), _QUICK)
    assert report.is_recorded
    found = load_records(package.info, this_machine())
    assert found is not None
    assert found.stale_reason == ""
    assert {(each.variant_name, each.backend, each.is_accurate) for each in found.measurements} == {
        ("cpu-fp32", "embedded", True),
        ("cpu-int8", "embedded", True),
    }


def test_records_nothing_where_asked_not_to(scale_package: Path, state: Path) -> None:
    report = bench(
        ortpkg.ModelPackage(scale_package), BenchWishes(backend="embedded", record=False), _QUICK
    )
    assert not report.is_recorded
    assert not (state / "records").exists()


def test_another_number_of_threads_is_measured_but_not_recorded(scale_package: Path) -> None:
    package = ortpkg.ModelPackage(scale_package)
    report = bench(package, BenchWishes(backend="embedded", threads=77), _QUICK)
    assert not report.is_recorded
    assert any("they were made with 77 threads" in note for note in report.notes)
    assert load_records(package.info, this_machine()) is None


def test_without_samples_inputs_are_made_up_and_the_embedded_engine_is_the_measure(
    tmp_path: Path,
) -> None:
    root = tmp_path / "bare.ortpackage"
    models = [scale_model(tmp_path / "two.onnx"), scale_model(tmp_path / "three.onnx", factor=3.0)]
    ortpkg.create(root, [ortpkg.NewVariant(model=each, ep="cpu") for each in models])
    report = bench(
        ortpkg.ModelPackage(root), BenchWishes(backend="embedded", sizes={"N": 5}), _QUICK
    )
    by_name = {each.candidate.variant_name: each for each in report.results}
    assert "random inputs, seed 0: x [5, 3]" in report.workloads["model"]
    assert "distances are from what 'two' gives on the embedded engine" in report.workloads["model"]
    for name, is_same in (("two", True), ("three", False)):
        found = by_name[name].distance
        assert found is not None
        assert (found.max_abs_error == 0.0) is is_same
        assert found.is_within is None
    assert report.quarantined == ()


def test_samples_without_expected_outputs_are_compared_with_the_embedded_engine(
    tmp_path: Path,
) -> None:
    root = tmp_path / "scale.ortpackage"
    ortpkg.create(root, [ortpkg.NewVariant(model=scale_model(tmp_path / "m.onnx"), ep="cpu")])
    add_samples(root, expects=False)
    report = bench(ortpkg.ModelPackage(root), BenchWishes(backend="embedded"), _QUICK)
    assert "distances are from what 'm' gives" in report.workloads["model"]
    assert report.results[0].compared == 4


def test_a_variant_that_needs_trust_is_skipped_and_not_held_against(tmp_path: Path) -> None:
    root = tmp_path / "scale.ortpackage"
    model = scale_model(tmp_path / "m.onnx")
    options = {"session.use_something_unheard_of": "1"}
    ortpkg.create(root, [ortpkg.NewVariant(model=model, ep="cpu", session_options=options)])
    report = bench(ortpkg.ModelPackage(root), BenchWishes(backend="embedded"), _QUICK)
    (result,) = report.results
    assert result.outcome is Outcome.SKIPPED
    assert "pass --trust" in result.reason
    assert report.quarantined == ()


def test_a_damaged_model_is_skipped(scale_package: Path) -> None:
    model = ortpkg.ModelPackage(scale_package).info.components[0].variants[0].model_path
    assert model is not None
    content = bytearray(model.read_bytes())
    content[-1] ^= 1
    model.write_bytes(content)
    report = bench(ortpkg.ModelPackage(scale_package), BenchWishes(backend="embedded"), _QUICK)
    assert report.results[0].outcome is Outcome.SKIPPED
    assert "digests.json" in report.results[0].reason


def test_a_backend_that_has_nothing_is_named(scale_package: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no variant can be measured on backend 'tpu'; here are: .*embedded"
    ):
        bench(ortpkg.ModelPackage(scale_package), BenchWishes(backend="tpu"), _QUICK)


# --- pipelines ------------------------------------------------------------------------------------


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """``y = 2 x``, then ``z = y + 1``, with samples for the whole."""
    root = tmp_path / "two.ortpackage"
    ortpkg.create(
        root,
        [ortpkg.NewVariant(model=scale_model(tmp_path / "m.onnx"), ep="cpu")],
        component="scale",
    )
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        shift (float[N, 3] y) => (float[N, 3] z) <float one = {1}> { z = Add(y, one) }
    """
    onnx.save(onnx.parser.parse_model(text), tmp_path / "shift.onnx")
    ortpkg.add_variant(root, tmp_path / "shift.onnx", component="shift", variant="cpu", ep="cpu")
    value = {"type": "tensor(float)", "shape": ["N", 3]}
    document = {
        "schema_version": "1.0",
        "inputs": [{"name": "x", **value}],
        "outputs": [{"name": "z", **value}],
        "steps": [
            {"component": "scale", "inputs": {"x": "x"}, "outputs": {"y": "y"}},
            {"component": "shift", "inputs": {"y": "y"}, "outputs": {"z": "z"}},
        ],
    }
    (root / "pipeline.json").write_text(json.dumps(document))
    add_samples(root, expects=False)
    return root


def test_components_of_a_pipeline_run_on_what_they_get_in_it(pipeline: Path) -> None:
    report = bench(ortpkg.ModelPackage(pipeline), BenchWishes(backend="embedded"), _QUICK)
    assert [each.outcome for each in report.results] == [Outcome.MEASURED] * 2
    for component in ("scale", "shift"):
        assert report.workloads[component].startswith(
            "recorded in the pipeline, fed from the package's samples 'few'"
        )
    assert all(
        each.distance is not None and each.distance.max_abs_error == 0 for each in report.results
    )
    assert {each.compared for each in report.results} == {4}


def test_a_pipeline_that_cannot_run_leaves_made_up_inputs(pipeline: Path) -> None:
    (pipeline / "pipeline.json").write_text(
        (pipeline / "pipeline.json")
        .read_text()
        .replace('{"y": "y"}, "outputs": {"z"', '{"w": "y"}, "outputs": {"z"')
    )
    ortpkg.record_digests(pipeline)
    report = bench(ortpkg.ModelPackage(pipeline), BenchWishes(backend="embedded"), _QUICK)
    assert any(
        "the pipeline cannot be run to record its components' inputs" in note
        for note in report.notes
    )
    assert all("random inputs" in description for description in report.workloads.values())


# --- the measurement itself -----------------------------------------------------------------------


def _candidate(model: Path, name: str = "v") -> BenchCandidate:
    return BenchCandidate(
        component_name="c", variant_name=name, ep_device=_EMBEDDED, model_path=model
    )


_FEEDS = [{"x": np.ones((1, 3), np.float32)}]


def test_all_candidates_run_in_every_round_each_round_starting_elsewhere(tmp_path: Path) -> None:
    model = scale_model(tmp_path / "m.onnx")
    seen: list[str] = []
    measure_candidates(
        [_candidate(model, name) for name in "abc"],
        {"c": Workload(feeds=_FEEDS)},
        Plan(rounds=3, repeat=3, duration_s=0.0),
        on_step=lambda step: seen.append(step.candidate.variant_name if step.candidate else "."),
    )
    assert "".join(seen) == "abc" + "bca" + "cab" + "."


def test_what_was_measured_stays_when_it_is_interrupted(tmp_path: Path) -> None:
    def interrupt(step: Any) -> None:
        if step.round_number == 2:
            raise KeyboardInterrupt

    model = scale_model(tmp_path / "m.onnx")
    results, was_interrupted = measure_candidates(
        [_candidate(model)],
        {"c": Workload(feeds=_FEEDS)},
        Plan(rounds=2, repeat=4, duration_s=0.0),
        interrupt,
    )
    assert was_interrupted
    assert results[0].outcome is Outcome.MEASURED
    assert results[0].times is not None
    assert results[0].times.count == 2


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (Plan(rounds=1, repeat=40, duration_s=0.0), range(40, 41)),
        (Plan(rounds=2, repeat=1, duration_s=0.4), range(50, 10**6)),
    ],
)
def test_runs_as_often_and_as_long_as_asked(tmp_path: Path, plan: Plan, expected: range) -> None:
    results, _ = measure_candidates(
        [_candidate(scale_model(tmp_path / "m.onnx"))], {"c": Workload(feeds=_FEEDS)}, plan
    )
    assert results[0].times is not None
    assert results[0].times.count in expected


def test_no_run_is_begun_that_would_look_like_a_hang(tmp_path: Path) -> None:
    class Slow:
        runs = 0

        def run(self, _names: None, _feed: object) -> list[object]:
            self.runs += 1
            time.sleep(0.2)
            return []

    slow = Slow()
    runs = child_worker._Runs(slow, [{}], ends_ns=time.monotonic_ns() + 700_000_000)
    assert 0.2 <= runs.first_run_s() < 0.4
    times = runs.timed(1000, 60.0, 60.0)
    assert 1 <= len(times) <= 3
    assert slow.runs <= 4
    late = child_worker._Runs(slow, [{}], ends_ns=time.monotonic_ns())
    first_s = late.first_run_s()
    assert late.timed(5, 0.0, 60.0) == [round(first_s * 1e9)]


def test_a_run_that_raises_on_made_up_inputs_is_not_held_against_the_variant(
    tmp_path: Path,
) -> None:
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        pick (int64[1] i) => (float[1] y) <float[2] table = {1, 2}> { y = Gather(table, i) }
    """
    onnx.save(onnx.parser.parse_model(text), tmp_path / "pick.onnx")
    feeds = [{"i": np.array([9])}]
    for is_synthetic in (True, False):
        workload = Workload(feeds=feeds, is_synthetic=is_synthetic)
        result, outputs = run_once(_candidate(tmp_path / "pick.onnx"), workload, _QUICK)
        assert (result.outcome, result.is_held_against, outputs) == (
            Outcome.FAILED,
            not is_synthetic,
            [],
        )


@pytest.mark.parametrize(
    ("backend", "device_type", "expected"),
    [
        ("openvino", DeviceType.CPU, {"num_of_threads": "3"}),
        ("onnxruntime", DeviceType.CPU, {"intra_op_num_threads": "3"}),
        ("openvino", DeviceType.GPU, {}),
        ("embedded", DeviceType.CPU, {}),
    ],
)
def test_every_backend_gets_the_same_number_of_threads(
    backend: str, device_type: DeviceType, expected: dict[str, str]
) -> None:
    ep_device = EpDevice(ep_name="X", device=HardwareDevice(type=device_type), backend=backend)
    assert thread_options(ep_device, 3) == expected
    arguments = BenchCandidate(
        component_name="c", variant_name="v", ep_device=ep_device, model_path=Path("m")
    ).session_arguments(3)
    assert arguments["session_entries"]["session.intra_op_num_threads"] == "3"
    assert arguments["provider_options"] == expected


_COUNT_THREADS = """
import os, sys
from ortpkg.selection.measuring.bench_candidate import thread_options
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.runtime.session.inference_session import InferenceSession
device = EpDevice(ep_name=sys.argv[3], device=HardwareDevice(type=DeviceType.CPU), backend=sys.argv[2])
session = InferenceSession(sys.argv[1], ep_devices=[(device, thread_options(device, int(sys.argv[4])))])
print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in procfs")
def test_onnxruntime_makes_as_many_threads_as_asked(tmp_path: Path) -> None:
    model = scale_model(tmp_path / "m.onnx")
    root = str(Path(ortpkg.__file__).parents[1])

    def count(threads: int) -> int:
        words = [str(model), "onnxruntime", "CPUExecutionProvider", str(threads)]
        done = subprocess.run(
            [sys.executable, "-c", _COUNT_THREADS, *words],
            env={**os.environ, "PYTHONPATH": root},
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stdout)

    assert count(6) - count(1) == 5


def test_a_child_that_holds_too_much_memory_is_ended() -> None:
    waiting = {"args": [sys.executable, "-c", "import time; time.sleep(60)"]}
    answer = call_in_child("subprocess:call", waiting, timeout_s=60, memory_limit_nbytes=1)
    assert answer.outcome is ChildOutcome.TOO_MUCH_MEMORY
    assert answer.reason == "it held more than 1 B of memory"


def test_a_child_within_its_limit_is_left_alone() -> None:
    answer = call_in_child("os:getpid", {}, timeout_s=60, memory_limit_nbytes=1 << 34)
    assert answer.outcome is ChildOutcome.DONE


# --- what selections make of it -------------------------------------------------------------------


def _slow_model(path: Path) -> Path:
    """``y = 2 x``, with some million multiplications by zero on the way."""
    zeros = [("a", (3, 1200)), ("b", (1200, 1200)), ("c", (1200, 3))]
    weights = [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in zeros]
    weights.append(numpy_helper.from_array(np.array(2, np.float32), "two"))
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "a"], ["h"]),
        onnx.helper.make_node("MatMul", ["h", "b"], ["i"]),
        onnx.helper.make_node("MatMul", ["i", "c"], ["j"]),
        onnx.helper.make_node("Mul", ["x", "two"], ["k"]),
        onnx.helper.make_node("Add", ["j", "k"], ["y"]),
    ]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "slow",
        [value("x", onnx.TensorProto.FLOAT, ["N", 3])],
        [value("y", onnx.TensorProto.FLOAT, ["N", 3])],
        weights,
    )
    onnx.save(
        onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
        ),
        path,
    )
    return path


@pytest.fixture
def three_speeds(tmp_path: Path) -> Path:
    """A slow variant, declared first, a fast one, and a fast one with wrong outputs."""
    root = tmp_path / "speeds.ortpackage"
    models = {
        "slow": _slow_model(tmp_path / "slow.onnx"),
        "wrong": scale_model(tmp_path / "wrong.onnx", factor=3.0),
        "fast": scale_model(tmp_path / "fast.onnx"),
    }
    ortpkg.create(
        root,
        [ortpkg.NewVariant(model=model, name=name, ep="cpu") for name, model in models.items()],
    )
    add_samples(root)
    return root


def test_policy_measured_takes_the_fastest_that_is_accurate(three_speeds: Path) -> None:
    package = ortpkg.ModelPackage(three_speeds)
    assert package.best_variant().name == "slow"
    bench(package, plan=Plan(rounds=2, repeat=10, duration_s=0.1))
    assert package.best_variant(policy="measured").name == "fast"
    wrong = {
        verdict.code for verdict in package.select().verdicts if verdict.variant.name == "wrong"
    }
    assert "QUARANTINED" in wrong
    assert not any(
        verdict.is_eligible
        for verdict in package.select().verdicts
        if verdict.variant.name == "wrong"
    )


# --- the command ----------------------------------------------------------------------------------


def test_prints_a_table_best_first_and_draws_a_picture(run: CommandLine, tmp_path: Path) -> None:
    done = run(
        "bench",
        DIGITS,
        "--rounds",
        1,
        "--repeat",
        5,
        "--svg",
        tmp_path / "b.svg",
        "--backend",
        "embedded",
    )
    assert done.code == 0, done.err
    assert "digits, best first" in done.out
    assert "cpu-int8" in done.out
    assert done.out.count("accurate") == 2
    assert "threads for every backend" in done.out
    assert "[1/2] round 1: classifier/cpu-fp32" in done.err
    assert (
        "recorded: ortpkg select --policy measured goes by it, ortpkg run by the fastest backend"
        in done.err
    )
    assert (tmp_path / "b.svg").read_text().startswith("<svg ")


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_keeps_what_was_measured_and_says_so(run: CommandLine, scale_package: Path) -> None:
    words = [
        "bench",
        str(scale_package),
        "--rounds",
        "90",
        "--repeat",
        "90",
        "--backend",
        "embedded",
    ]
    child = subprocess.Popen(
        [sys.executable, "-m", "ortpkg", *words],
        env=dict(run.environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    next(line for line in child.stderr if line.startswith("[3/"))
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 130
    assert "accurate" in out
    assert "interrupted: this is what was measured until then" in err
    assert "recorded" in err


def test_a_second_benchmark_waits_for_the_first(
    run: CommandLine, scale_package: Path, tmp_path: Path
) -> None:
    lock = tmp_path / "line" / "state" / "bench.lock"
    lock.parent.mkdir(parents=True)
    words = ["bench", str(scale_package), "--rounds", "1", "--repeat", "1", "--backend", "embedded"]
    with filelock.FileLock(lock):
        child = subprocess.Popen(
            [sys.executable, "-m", "ortpkg", *words],
            env=dict(run.environment),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert child.stderr is not None
        assert "waiting for another benchmark to end" in child.stderr.readline()
        assert child.poll() is None
    _, err = child.communicate(timeout=120)
    assert child.returncode == 0, err


def test_a_home_that_cannot_be_written_costs_the_record_only(
    run: CommandLine, scale_package: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    words = ("bench", scale_package, "--rounds", 1, "--repeat", 1, "--backend", "embedded")
    done = run(*words, ORTPKG_STATE_DIR=str(tmp_path / "file"))
    assert done.code == 0
    assert "accurate" in done.out
    assert "other benchmarks are not kept off" in done.err
    assert "cannot be written: Not a directory" in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--repeat", 3, "--duration", 2), "give --repeat or --duration, not both"),
        (("--svg", "/nowhere/b.svg"), "--svg '/nowhere/b.svg': there is no directory '/nowhere'"),
        (("--dim", "batch"), "--dim 'batch': give a dimension and its size, as batch=1"),
        (("--component", "x"), "has no component model 'x'"),
        (("--variant", "cpv"), "did you mean 'cpu'"),
    ],
)
def test_says_what_is_wrong_with_the_command_line(
    scale_package: Path, capsys: pytest.CaptureFixture[str], options: tuple[object, ...], said: str
) -> None:
    assert run_command_line(["bench", str(scale_package), *map(str, options)]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("ended", "plan", "outcome", "is_held_against"),
    [
        (ChildOutcome.TIMED_OUT, Plan(timeout_s=0.3), Outcome.OVER_LIMIT, False),
        (ChildOutcome.TIMED_OUT, Plan(timeout_s=119), Outcome.OVER_LIMIT, False),
        (ChildOutcome.TIMED_OUT, Plan(), Outcome.HUNG, True),
        (ChildOutcome.TIMED_OUT, Plan(timeout_s=600), Outcome.HUNG, True),
        (
            ChildOutcome.TOO_MUCH_MEMORY,
            Plan(memory_limit_nbytes=9, generous_nbytes=10),
            Outcome.OVER_LIMIT,
            False,
        ),
        (
            ChildOutcome.TOO_MUCH_MEMORY,
            Plan(memory_limit_nbytes=10, generous_nbytes=10),
            Outcome.FAILED,
            True,
        ),
        (ChildOutcome.CRASHED, Plan(timeout_s=0.3, memory_limit_nbytes=1), Outcome.CRASHED, True),
    ],
)
def test_a_limit_that_somebody_chose_is_no_fault_of_the_variant(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ended: ChildOutcome,
    plan: Plan,
    outcome: Outcome,
    is_held_against: bool,
) -> None:
    monkeypatch.setattr(
        measure, "call_in_child", lambda *_, **__: ChildResult(outcome=ended, reason="no answer")
    )
    candidate = _candidate(tmp_path / "m.onnx")

    result, _ = run_once(candidate, Workload(feeds=_FEEDS), plan)

    assert (result.outcome, result.is_held_against) == (outcome, is_held_against)


def test_outputs_larger_than_the_memory_limit_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_function: str, arguments: dict[str, Any], **_: object) -> ChildResult:
        np.savez_compressed(arguments["outputs"], bomb=np.zeros(1 << 20, np.uint8))
        return ChildResult(outcome=ChildOutcome.DONE, value={"session_creation_s": 0.1})

    monkeypatch.setattr(measure, "call_in_child", answer)
    candidate = _candidate(tmp_path / "m.onnx")
    plan = Plan(memory_limit_nbytes=1 << 20, generous_nbytes=1 << 20)

    result, outputs = run_once(candidate, Workload(feeds=_FEEDS), plan)

    assert not outputs
    assert result.outcome is Outcome.OVER_LIMIT
    assert "its outputs take 1.1 MB, more than the memory limit of 1 MiB" in result.reason


def test_no_child_is_started_once_others_gave_no_answer_for_ten_times_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def hang(*_arguments: object, timeout_s: float, **_: object) -> ChildResult:
        started.append(timeout_s)
        time.sleep(timeout_s)
        return ChildResult(outcome=ChildOutcome.TIMED_OUT, reason="no answer")

    monkeypatch.setattr(measure, "call_in_child", hang)
    candidates = [_candidate(tmp_path / f"{number}.onnx") for number in range(13)]
    workloads = {candidates[0].component_name: Workload(feeds=_FEEDS)}

    results, _ = measure_candidates(candidates, workloads, Plan(timeout_s=0.01, rounds=2))

    assert len(started) in range(2, 11)
    assert {each.outcome for each in results} == {Outcome.OVER_LIMIT}
    assert "measure this one alone (--variant)" in results[-1].reason


def test_a_narrow_timeout_of_the_command_line_puts_nothing_into_quarantine(
    run: CommandLine, tmp_path: Path
) -> None:
    package, model = tmp_path / "hangs.ortpackage", scale_model(tmp_path / "double.onnx")
    hangs = ortpkg.NewVariant(
        model=model, name="hangs", ep=FAULTY_EP, device="cpu", provider_options={"fault": "hang"}
    )
    ortpkg.create(package, [hangs])

    done = run("bench", package, "--timeout", 0.5, "--rounds", 1, "--trust", "--json")

    assert [each["outcome"] for each in done.json["results"]] == ["over the limit"]
    assert "nothing is in quarantine" in run("quarantine").out


@pytest.mark.parametrize("lost", ["removed", "cut short"])
def test_files_that_cannot_be_read_are_no_fault_of_a_backend_and_nothing_measured_is_a_failure(
    run: CommandLine, tmp_path: Path, lost: str
) -> None:
    model = onnx.load(scale_model(tmp_path / "inline.onnx"))
    model.graph.initializer.append(numpy_helper.from_array(np.ones(64, np.float32), "w"))
    model.graph.node.append(onnx.helper.make_node("Neg", ["w"], ["unused"]))
    onnx.save(
        model, tmp_path / "m.onnx", save_as_external_data=True, location="w.data", size_threshold=0
    )
    data = tmp_path / "w.data"
    data.unlink() if lost == "removed" else data.write_bytes(data.read_bytes()[:8])

    done = run("bench", tmp_path / "m.onnx", "--rounds", 1, "--repeat", 1, "--dim", "N=1")

    assert done.code == 5
    assert "nothing was measured" in done.err
    assert "no backend is to blame, so it is not quarantined" in " ".join(done.out.split())
    assert "nothing is in quarantine" in run("quarantine").out


@pytest.mark.parametrize(
    ("outcomes", "exit_code"),
    [
        ((Outcome.FAILED, Outcome.MEASURED), 0),
        ((Outcome.WRONG_OUTPUT,), 0),
        ((Outcome.SKIPPED, Outcome.CRASHED), 5),
        ((Outcome.OVER_LIMIT, Outcome.FELL_BACK), 1),
        ((Outcome.SKIPPED, Outcome.FELL_BACK), 3),
    ],
)
def test_the_exit_code_says_why_nothing_was_measured(
    tmp_path: Path, outcomes: tuple[Outcome, ...], exit_code: int
) -> None:
    candidate = _candidate(tmp_path / "m.onnx")
    results = tuple(CandidateResult(candidate=candidate, outcome=each) for each in outcomes)
    report = BenchReport(package_name="p", results=results, workloads={}, plan=_QUICK)
    assert _print_result(report, Output(is_json=False), None) == exit_code
