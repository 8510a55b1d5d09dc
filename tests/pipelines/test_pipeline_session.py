"""Pipelines: components in order, wired by name or as pipeline.json says, with loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import InvalidFeedError, RunError
from ortpkg.package.formats.pipeline import ComponentStep, Pipeline, RepeatStep, StopCondition
from ortpkg.package.package_info import PackageFormat, PackageInfo, ValueInfo
from ortpkg.runtime.pipelines.pipeline_session import PipelineSession, wire_by_name
from ortpkg.runtime.session.placement import EpPlacement, Placement


class Session:
    """A component that computes its outputs with a Python function."""

    def __init__(
        self, inputs: Sequence[str], outputs: Sequence[str], function: Callable[..., Sequence[Any]]
    ) -> None:
        self._inputs = [ValueInfo(name=name, type="tensor(float)", shape=(1,)) for name in inputs]
        self._outputs = [ValueInfo(name=name, type="tensor(float)", shape=(1,)) for name in outputs]
        self._function = function

    def get_inputs(self) -> Sequence[ValueInfo]:
        return self._inputs

    def get_outputs(self) -> Sequence[ValueInfo]:
        return self._outputs

    def get_placement(self) -> Placement:
        entry = EpPlacement(
            ep_name=CPU_EP,
            backend="embedded",
            device="CPU",
            node_count=len(self._outputs),
            weight_nbytes=0,
        )
        return Placement(entries=(entry,))

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Any]:
        del run_options
        results = dict(
            zip((v.name for v in self._outputs), self._function(**input_feed), strict=True)
        )
        return [results[name] for name in output_names or results]


def package(tmp_path: Path) -> PackageInfo:
    return PackageInfo(
        root=tmp_path, name="p", version=None, format=PackageFormat.METADATA, components=()
    )


def value(name: str) -> ValueInfo:
    return ValueInfo(name=name, type="tensor(float)", shape=(1,))


def test_components_without_a_pipeline_are_wired_by_name(tmp_path: Path) -> None:
    sessions = {
        "encode": Session(["x"], ["h"], lambda x: [x + 1]),
        "decode": Session(["h", "scale"], ["y"], lambda h, scale: [h * scale]),
    }
    session = PipelineSession(package(tmp_path), sessions)
    assert [argument.name for argument in session.get_inputs()] == ["x", "scale"]
    assert [argument.name for argument in session.get_outputs()] == ["y"]
    assert session.run(None, {"x": np.array([2]), "scale": np.array([10])})[0].tolist() == [30]


def test_a_pipeline_says_where_each_component_runs(tmp_path: Path) -> None:
    one, two = Session(["x"], ["h"], lambda x: [x]), Session(["h"], ["y", "z"], lambda h: [h, h])
    placement = PipelineSession(package(tmp_path), {"one": one, "two": two}).get_placement()
    assert {name: found.node_count for name, found in placement.items()} == {"one": 1, "two": 2}


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        ({"x": 1, "sclae": 2}, "the pipeline has no input 'sclae' \\(did you mean 'scale'\\?\\)"),
        ({"x": 1}, "the pipeline's input 'scale' is not fed"),
    ],
)
def test_a_wrong_feed_is_refused(tmp_path: Path, feed: dict[str, Any], message: str) -> None:
    session = PipelineSession(
        package(tmp_path), {"m": Session(["x", "scale"], ["y"], lambda x, scale: [x * scale])}
    )
    with pytest.raises(InvalidFeedError, match=message):
        session.run(None, feed)


def test_an_unknown_output_is_refused(tmp_path: Path) -> None:
    session = PipelineSession(package(tmp_path), {"m": Session(["x"], ["y"], lambda x: [x])})
    with pytest.raises(InvalidFeedError, match="the pipeline has no output 'z'"):
        session.run(["z"], {"x": 1})


def repeated(
    tmp_path: Path, step: RepeatStep, function: Callable[..., Sequence[Any]]
) -> PipelineSession:
    session = PipelineSession(package(tmp_path), {"step": Session(["token"], ["next"], function)})
    session.pipeline = Pipeline(
        schema_version=(1, 0),
        inputs=(value("token"),),
        outputs=(value("next"), value("token")),
        steps=(step,),
    )
    return session


BODY = (ComponentStep(component="step", inputs={"token": "token"}, outputs={"next": "next"}),)


def test_a_loop_carries_and_collects(tmp_path: Path) -> None:
    step = RepeatStep(times=4, steps=BODY, carry={"token": "next"}, collect=("next",))
    session = repeated(tmp_path, step, lambda token: [token * 2])
    collected, last = session.run(None, {"token": np.array([1])})
    assert collected.tolist() == [[2], [4], [8], [16]]
    assert last.tolist() == [16]


def test_a_loop_stops_after_the_round_whose_value_says_so(tmp_path: Path) -> None:
    step = RepeatStep(
        times=100,
        steps=BODY,
        carry={"token": "next"},
        collect=("next",),
        stop=StopCondition(value="next", equals=8),
    )
    session = repeated(tmp_path, step, lambda token: [token * 2])
    assert session.run(["next"], {"token": np.array([1])})[0].ravel().tolist() == [2, 4, 8]


def test_rounds_of_different_shapes_cannot_be_collected(tmp_path: Path) -> None:
    step = RepeatStep(times=2, steps=BODY, carry={"token": "next"}, collect=("next",))
    session = repeated(tmp_path, step, lambda token: [np.concatenate([token, token])])
    with pytest.raises(
        RunError, match="cannot collect 'next': its shape differs from round to round"
    ):
        session.run(None, {"token": np.array([1])})


def test_an_output_made_twice_by_name_is_the_later_one() -> None:
    sessions = {
        "a": Session(["x"], ["x2"], lambda x: [x]),
        "b": Session(["x2"], ["x2"], lambda x2: [x2]),
    }
    pipeline = wire_by_name(sessions)
    assert [each.name for each in pipeline.outputs] == ["x2"]


def test_rounds_tell_what_they_add_to_outputs_as_soon_as_it_is_there(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    made: list[float] = []

    def make(token: Any) -> list[Any]:
        assert len(told) == len(made), "the rounds of before are told"
        made.append(float(token[0]))
        return [token + 1]

    step = RepeatStep(times=3, steps=BODY, carry={"token": "next"}, collect=("next",))
    session = repeated(tmp_path, step, make)
    assert session.gathered_outputs == ("next",)
    values = session.run(
        None, {"token": np.array([1])}, on_round=lambda each: told.append({**each})
    )
    assert [each["next"].tolist() for each in told] == [[2], [3], [4]]
    assert values[0].tolist() == [[2], [3], [4]]
    assert values[1].tolist() == [4]


def test_each_run_of_a_component_is_told_with_its_time(tmp_path: Path) -> None:
    step = RepeatStep(times=3, steps=BODY, carry={"token": "next"}, collect=("next",))
    session = repeated(tmp_path, step, lambda token: [token + 1])
    told: list[tuple[str, float]] = []
    session.on_component = lambda component, duration_s: told.append((component, duration_s))
    session.run(None, {"token": np.array([1])})
    assert [component for component, _ in told] == [*session.sessions] * 3
    assert all(duration_s >= 0 for _, duration_s in told)
