"""Which requests of a served model are joined, and that joined ones are answered like others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ortpkg
from ortpkg.api.bench.benchmark import BenchWishes, bench
from ortpkg.foundations.errors import LimitExceededError, NotServingError, ServerBusyError
from ortpkg.package.package_info import ValueInfo
from ortpkg.scale.serving import batch_choice
from ortpkg.scale.serving.answering import Answering
from ortpkg.scale.serving.batching import BatchPlan
from ortpkg.scale.serving.loading import load
from ortpkg.scale.serving.observer import Observer
from ortpkg.scale.serving.served_model import ServedModel
from ortpkg.scale.serving.serving_options import LoadWishes, ServingLimits
from ortpkg.selection.matching.wishes import SelectionWishes
from ortpkg.selection.measuring.measured_candidates import Plan

_LIMITS = ServingLimits(concurrency=1, most_waiting=4, timeout_s=20, drain_s=5)


def _package(folder: Path, shape: str) -> Path:
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        double (float{shape} x) => (float{shape} y) {{ y = Add(x, x) }}"""
    )
    onnx.save(model, folder / "double.onnx")
    root = folder / "double.ortpackage"
    ortpkg.create(root, [ortpkg.NewVariant(model=folder / "double.onnx", name="cpu", ep="cpu")])
    return root


def _load(root: Path, bound_s: float) -> Any:
    wishes = LoadWishes(
        selection=SelectionWishes(backend="embedded"), batch_latency_s=bound_s, threads=1
    )
    return load(ortpkg.ModelPackage(root).info, wishes, _LIMITS)


@pytest.fixture(autouse=True)
def _no_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ORTPKG_STATE_DIR", str(tmp_path / "state"))


def test_without_records_runs_are_timed(tmp_path: Path) -> None:
    loaded = _load(_package(tmp_path, "[N, 3]"), bound_s=30.0)
    assert loaded.batches.reason == "measured"
    assert loaded.model.batch_plan is loaded.batches.plan
    assert loaded.model.batch_plan is not None  # of how many rows is for the clock to say


@pytest.mark.parametrize(
    ("times_s", "most_rows"),
    [
        ({1: 1.0, 2: 9.0, 4: 1.0, 8: 1.0, 16: 4.0, 32: 9.0, 64: 1.0}, 8),
        ({1: 1.0, 2: 9.0, 4: 9.0, 8: 1.0}, 1),
    ],
    ids=["one was disturbed", "two gain nothing"],
)
def test_runs_are_timed_until_two_sizes_gain_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times_s: dict[int, float], most_rows: int
) -> None:
    def measured(_run: Any, _feed: Any, _rows: Any, *, is_enough: Any, **_: Any) -> Any:
        found: dict[int, float] = {}
        for rows, time_s in times_s.items():
            found[rows] = time_s
            if is_enough(found):
                break
        return found

    monkeypatch.setattr(batch_choice, "measure_batches", measured)
    loaded = _load(_package(tmp_path, "[N, 3]"), bound_s=1000.0)
    assert loaded.batches.plan.most_rows == most_rows


def test_what_a_benchmark_recorded_counts(tmp_path: Path) -> None:
    root = _package(tmp_path, "[N, 3]")
    plan = Plan(rounds=1, repeat=1, duration_s=0.0, batch_rows=(3,))
    bench(ortpkg.ModelPackage(root), BenchWishes(backend="embedded"), plan)
    loaded = _load(root, bound_s=30.0)
    assert (loaded.batches.reason, loaded.batches.plan.most_rows) == ("recorded", 3)


def test_a_bound_that_no_run_fits_joins_nothing_and_says_so(tmp_path: Path) -> None:
    batches = _load(_package(tmp_path, "[N, 3]"), bound_s=1e-9).batches
    assert batches.plan is None
    assert "do not fit" in batches.reason


def test_a_model_of_one_row_is_left_alone(tmp_path: Path) -> None:
    batches = _load(_package(tmp_path, "[1, 3]"), bound_s=30.0).batches
    assert batches.plan is None
    assert "first dimension" in batches.reason


class _Session:
    """Doubles; ``gate`` keeps runs from ending."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.sizes: list[int] = []

    def run(
        self, output_names: Any, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        while not self.gate.wait(0.001) and not run_options.terminate:
            pass
        self.sizes.append(len(input_feed["x"]))
        return [input_feed["x"] * 2 for _ in output_names]

    def get_inputs(self) -> Sequence[Any]:
        return [ValueInfo(name="x", type="tensor(float)", shape=("N", 1))]

    def get_outputs(self) -> Sequence[Any]:
        return [ValueInfo(name=name, type="tensor(float)", shape=("N", 1)) for name in "yz"]


@pytest.fixture
def session() -> Iterator[_Session]:
    """A session whose runs end with the test, also where it fails: their threads would stay."""
    session = _Session()
    yield session
    session.gate.set()


@pytest.fixture
def model(session: _Session) -> ServedModel:
    model = ServedModel(name="double", version="1", session=session)
    model.batch_plan = BatchPlan(most_rows=8)
    return model


class _Heard(Observer):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.joined_rows: list[tuple[int, int]] = []
        self.answers = 0

    def joined(self, model: ServedModel, rows: int, waited_s: list[float]) -> None:
        self.joined_rows.append((rows, len(waited_s)))

    def answered(self, model: ServedModel, duration_s: float) -> None:
        self.answers += 1


def _ask(answering: Answering, model: ServedModel, value: float) -> Any:
    inputs = {"x": np.full((1, 1), value, np.float32)}
    return asyncio.ensure_future(answering.answer(model, inputs, ["z"]))


async def _all_waiting(count: int, answering: Answering) -> None:
    while answering.open_requests < count:
        await asyncio.sleep(0)


def test_joined_requests_get_their_own_rows_of_what_they_asked_for(
    model: ServedModel, session: _Session
) -> None:
    observer = _Heard()

    async def main() -> list[Any]:
        answering = Answering(_LIMITS)
        answering.observer = observer
        asked = [_ask(answering, model, value) for value in range(4)]
        await _all_waiting(4, answering)
        session.gate.set()
        return await asyncio.gather(*asked)

    answers = asyncio.run(main())
    assert session.sizes == [1, 3]
    assert [each["z"].tolist() for each in answers] == [[[0]], [[2]], [[4]], [[6]]]
    assert {tuple(each) for each in answers} == {("z",)}
    assert observer.joined_rows == [(1, 1), (3, 3)]
    assert observer.answers == 4


def test_no_more_wait_than_may_and_each_as_long_as_it_may(
    model: ServedModel, session: _Session
) -> None:
    async def main() -> None:
        answering = Answering(replace(_LIMITS, timeout_s=0.05))
        asked = [_ask(answering, model, value) for value in range(5)]
        await _all_waiting(5, answering)
        with pytest.raises(ServerBusyError):
            await _ask(answering, model, 5)
        errors = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(each, LimitExceededError) for each in errors)
        session.gate.set()

    asyncio.run(main())


def test_the_end_of_the_server_waits_for_joined_requests_and_then_ends_them(
    model: ServedModel, session: _Session
) -> None:
    async def main() -> None:
        answering = Answering(ServingLimits(concurrency=1, timeout_s=20, drain_s=0.05))
        asked = [_ask(answering, model, value) for value in range(2)]
        await _all_waiting(2, answering)
        began = time.monotonic()
        assert not await answering.drain()
        assert time.monotonic() - began < 10
        assert session.sizes == [1, 1]  # told to end, each of them
        with pytest.raises(NotServingError):
            await _ask(answering, model, 2)
        await asyncio.gather(*asked)

    asyncio.run(main())
