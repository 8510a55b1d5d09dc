"""Limits over several runs: a pipeline's rounds, or all samples, share time and memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortpkg.api.samples.sample_runner import run_samples
from ortpkg.foundations.errors import CancelledError, LimitExceededError
from ortpkg.package.formats.pipeline import ComponentStep, Pipeline, RepeatStep
from ortpkg.package.formats.samples import SampleSet
from ortpkg.package.package_info import PackageFormat, PackageInfo, ValueInfo
from ortpkg.runtime.pipelines.pipeline_session import PipelineSession
from ortpkg.runtime.pipelines.run_limits import SharedRunOptions
from ortpkg.runtime.session.options import RunOptions
from ortpkg.runtime.session.placement import Placement


class Session:
    """Computes ``y`` from ``x`` with a function, and notes the limits of each run."""

    def __init__(self, function: Callable[[Any], Any] = lambda x: x) -> None:
        self._function = function
        self.limits: list[tuple[float | None, int | None]] = []

    def get_inputs(self) -> Sequence[ValueInfo]:
        return [ValueInfo(name="x", type="tensor(float)", shape=(1,))]

    def get_outputs(self) -> Sequence[ValueInfo]:
        return [ValueInfo(name="y", type="tensor(float)", shape=(1,))]

    def get_placement(self) -> Placement:
        return Placement(entries=())

    def run(
        self, output_names: Any, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        self.limits.append((run_options.timeout_s, run_options.memory_limit_nbytes))
        return [self._function(input_feed["x"])]


def pipeline(
    tmp_path: Path, session: Session, times: int, collect: tuple[str, ...] = ()
) -> PipelineSession:
    info = PackageInfo(
        root=tmp_path, name="p", version=None, format=PackageFormat.METADATA, components=()
    )
    made = PipelineSession(info, {"m": session})
    step = ComponentStep(component="m", inputs={"x": "x"}, outputs={"y": "y"})
    repeat = RepeatStep(times=times, steps=(step,), carry={"x": "y"}, collect=collect)
    value = session.get_inputs()[0]
    made.pipeline = Pipeline(
        schema_version=(1, 0),
        inputs=(value,),
        outputs=(value, *session.get_outputs()[: len(collect)]),
        steps=(repeat,),
    )
    return made


def options(**values: Any) -> RunOptions:
    made = RunOptions()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def nap(x: Any) -> Any:
    time.sleep(0.02)
    return x


def test_the_rounds_of_a_pipeline_share_one_time_limit(tmp_path: Path) -> None:
    session = Session(nap)
    start = time.perf_counter()
    with pytest.raises(
        LimitExceededError, match=r"the runs passed their time limit of 1 s together"
    ) as caught:
        pipeline(tmp_path, session, 10**6).run(None, {"x": np.zeros(1)}, options(timeout_s=1))
    assert time.perf_counter() - start < 10
    assert caught.value.limit == "time"
    left = [timeout_s for timeout_s, _ in session.limits if timeout_s is not None]
    assert left == sorted(left, reverse=True)
    assert 0 < left[-1] < left[0] <= 1


def test_a_component_that_takes_what_is_left_tells_of_the_whole_limit(tmp_path: Path) -> None:
    def late(x: Any) -> Any:
        raise LimitExceededError("the run passed its time limit of 0.0123 s", limit="time")

    with pytest.raises(LimitExceededError, match=r"time limit of 5 s together"):
        pipeline(tmp_path, Session(late), 3).run(None, {"x": np.zeros(1)}, options(timeout_s=5.0))


def test_what_the_rounds_collect_counts_for_the_memory_limit(tmp_path: Path) -> None:
    session = Session()
    with pytest.raises(
        LimitExceededError, match=r"values kept between runs take .* memory limit of 10 kB"
    ):
        pipeline(tmp_path, session, 10**6, ("y",)).run(
            None, {"x": np.zeros(100)}, options(memory_limit_nbytes=10_000)
        )
    left = [nbytes for _, nbytes in session.limits if nbytes is not None]
    assert left[0] == 10_000 - 800
    assert left[1] == left[0] - 800
    assert len(left) < 14


def test_a_pipeline_is_cancelled_between_two_rounds(tmp_path: Path) -> None:
    given = options()
    rounds = 0

    def count(x: Any) -> Any:
        nonlocal rounds
        rounds += 1
        given.terminate = rounds == 3
        return x

    with pytest.raises(CancelledError, match=r"RunOptions\.terminate"):
        pipeline(tmp_path, Session(count), 10**6).run(None, {"x": np.zeros(1)}, given)
    assert rounds == 3


def test_without_limits_the_sessions_own_hold(tmp_path: Path) -> None:
    session = Session()
    pipeline(tmp_path, session, 2).run(None, {"x": np.zeros(1)})
    assert session.limits == [(None, None)] * 2


def test_samples_share_one_time_limit(tmp_path: Path) -> None:
    np.savez(tmp_path / "inputs.npz", x=np.zeros((1000, 1), np.float32))
    samples = SampleSet(name="s", inputs=tmp_path / "inputs.npz", batch_axis=0)
    session = Session(nap)
    start = time.perf_counter()
    with pytest.raises(LimitExceededError, match=r"time limit of 0\.2 s together"):
        run_samples(session, samples, run_options=options(timeout_s=0.2))
    assert time.perf_counter() - start < 2
    assert len(session.limits) < 20


def test_options_that_are_shared_already_stay_the_same() -> None:
    shared = SharedRunOptions(options(timeout_s=3.0, logid="here"))
    assert SharedRunOptions.of(shared) is shared
    assert shared.logid == "here"
