"""Values of a pipeline that stay on a device between its components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ortpkg import OrtValue
from ortpkg.package.formats.pipeline import ComponentStep, Pipeline, RepeatStep, StopCondition
from ortpkg.package.package_info import PackageFormat, PackageInfo, ValueInfo
from ortpkg.runtime.kernels.device_tensor import DeviceTensor
from ortpkg.runtime.pipelines.kept_values import kept_values
from ortpkg.runtime.pipelines.pipeline_session import PipelineSession
from ortpkg.runtime.session.values.device_values import DeviceBorders

MEMORY = "Acme:0"


class Component:
    """A component whose inputs and outputs of these names may lie on a device.

    Attributes:
        fed: values of each run.
        left: outputs that each run was to leave.
    """

    def __init__(
        self,
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        takes: Mapping[str, str] | None = None,
        leaves: Mapping[str, str] | None = None,
    ) -> None:
        self._names = {"in": inputs, "out": outputs}
        self._borders = DeviceBorders(
            dict.fromkeys(inputs, MEMORY) if takes is None else takes,
            dict.fromkeys(outputs, MEMORY) if leaves is None else leaves,
        )
        self.fed: list[Mapping[str, Any]] = []
        self.left: list[Mapping[str, str]] = []

    def get_inputs(self) -> Sequence[ValueInfo]:
        return [value(name) for name in self._names["in"]]

    def get_outputs(self) -> Sequence[ValueInfo]:
        return [value(name) for name in self._names["out"]]

    def get_device_borders(self) -> DeviceBorders:
        return self._borders

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], options: Any = None
    ) -> list[Any]:
        return self.run_with_values_left(
            output_names or self._names["out"], input_feed, {}, options
        )

    def run_with_values_left(
        self,
        output_names: Sequence[str],
        input_feed: Mapping[str, Any],
        left: Mapping[str, str],
        options: Any = None,
    ) -> list[Any]:
        del options
        self.fed.append(dict(input_feed))
        self.left.append(left)
        return [OrtValue(tensor()) if name in left else np.zeros(1) for name in output_names]

    def get_placement(self) -> Any:
        raise NotImplementedError


def tensor() -> Any:
    return DeviceTensor(
        memory=MEMORY, block=object(), offset=0, shape=(1,), dtype=np.dtype(np.float32)
    )


def value(name: str) -> ValueInfo:
    return ValueInfo(name=name, type="tensor(float)", shape=(1,))


def pipeline(*steps: Any, outputs: Sequence[str] = ("y",)) -> Pipeline:
    return Pipeline(
        schema_version=(1, 0),
        inputs=(value("x"),),
        outputs=tuple(map(value, outputs)),
        steps=steps,
    )


ENCODE = ComponentStep(component="encode", inputs={"x": "x"}, outputs={"h": "hidden"})
DECODE = ComponentStep(component="decode", inputs={"h": "hidden"}, outputs={"y": "y"})


def encode(**places: Any) -> Component:
    return Component(["x"], ["h"], **places)


def decode(**places: Any) -> Component:
    return Component(["h"], ["y"], **places)


def test_a_value_stays_where_its_only_taker_takes_it() -> None:
    sessions = {"encode": encode(), "decode": decode()}
    assert kept_values(pipeline(ENCODE, DECODE), sessions) == {0: {"h": MEMORY}}


def test_a_value_that_an_array_is_made_of_comes_back() -> None:
    chain = pipeline(ENCODE, DECODE)
    for sessions in (
        {"encode": encode(), "decode": decode(takes={})},
        {"encode": encode(), "decode": decode(takes={"h": "Other:0"})},
        {"encode": encode(leaves={}), "decode": decode()},
        {"encode": encode(), "decode": object()},
    ):
        assert kept_values(chain, sessions) == {}
    handed_out = pipeline(ENCODE, DECODE, outputs=("y", "hidden"))
    assert kept_values(handed_out, {"encode": encode(), "decode": decode()}) == {}


def test_a_value_that_one_of_two_takers_needs_as_an_array_comes_back() -> None:
    other = ComponentStep(component="other", inputs={"h": "hidden"}, outputs={"z": "z"})
    sessions = {
        "encode": encode(),
        "decode": decode(),
        "other": Component(["h"], ["z"], takes={}),
    }
    assert kept_values(pipeline(ENCODE, DECODE, other), sessions) == {}


def test_what_a_loop_carries_stays_in_all_of_its_rounds() -> None:
    step = ComponentStep(
        component="decode",
        inputs={"token": "first", "cache": "cache"},
        outputs={"next": "next", "longer": "longer", "text": "y"},
    )
    prefill = ComponentStep(
        component="prefill", inputs={"x": "x"}, outputs={"t": "first", "c": "cache"}
    )
    sessions = {
        "prefill": Component(["x"], ["t", "c"]),
        "decode": Component(["token", "cache"], ["next", "longer", "text"]),
    }

    def kept(**loop: Any) -> Mapping[int, Mapping[str, str]]:
        repeat = RepeatStep(
            times=3, steps=(step,), carry={"first": "next", "cache": "longer"}, **loop
        )
        return kept_values(pipeline(prefill, repeat), sessions)

    assert kept(collect=("y",)) == {
        0: {"t": MEMORY, "c": MEMORY},
        1: {"next": MEMORY, "longer": MEMORY},
    }
    stopping = kept(collect=("y",), stop=StopCondition(value="next", equals=0))
    assert stopping == {0: {"c": MEMORY}, 1: {"longer": MEMORY}}
    assert kept(collect=("y", "longer")) == {0: {"t": MEMORY}, 1: {"next": MEMORY}}


def test_a_run_hands_on_the_very_value_that_was_left(tmp_path: Path) -> None:
    sessions = {"encode": encode(), "decode": decode()}
    package = PackageInfo(
        root=tmp_path, name="p", version=None, format=PackageFormat.METADATA, components=()
    )
    session = PipelineSession(package, sessions)
    (y,) = session.run(None, {"x": np.zeros(1)})
    assert isinstance(y, np.ndarray)
    assert sessions["encode"].left == [{"h": MEMORY}]
    assert isinstance(sessions["decode"].fed[0]["h"], DeviceTensor)
    assert sessions["decode"].left == [{}]
