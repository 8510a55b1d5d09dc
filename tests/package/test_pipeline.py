"""pipeline.json: steps and loops, and that each value is made once, before it is used."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.errors import PackageFormatError
from ortpkg.package.formats.pipeline import (
    ComponentStep,
    RepeatStep,
    StopCondition,
    check_pipeline,
    pipeline_components,
    read_pipeline,
)
from ortpkg.package.package_info import ComponentInfo, PackageFormat, PackageInfo
from tests.package.conftest import WritePackage


def package_of(root: Path, *components: str) -> PackageInfo:
    infos = tuple(
        ComponentInfo(name=name, directory=root / "models" / name, variants=())
        for name in components
    )
    return PackageInfo(
        root=root, name="m", version=None, format=PackageFormat.METADATA, components=infos
    )


def value(name: str) -> dict[str, Any]:
    return {"name": name, "type": "tensor(float)", "shape": ["n", 4.0, None]}


def step(component: str, inputs: dict[str, str], outputs: dict[str, str]) -> dict[str, Any]:
    return {"component": component, "inputs": inputs, "outputs": outputs}


def pipeline(*steps: Any, inputs: str = "x", outputs: str = "") -> dict[str, Any]:
    return {
        "schema_version": "1.0",
        "inputs": [value(name) for name in inputs.split()],
        "outputs": [value(name) for name in outputs.split()],
        "steps": list(steps),
    }


def problems(write_package: WritePackage, document: Any) -> list[str]:
    """What is wrong, without remedies: "pointer: message"."""
    found = check_pipeline(write_package({"pipeline.json": document}), ["enc", "dec"])[1]
    return [f"{finding.pointer}: {finding.message}" for finding in found]


def test_a_package_without_pipeline_has_none(tmp_path: Path) -> None:
    assert read_pipeline(package_of(tmp_path, "enc")) is None


def test_reads_steps_and_a_loop(write_package: WritePackage) -> None:
    body = step(
        "dec",
        {"tokens": "prompt", "state": "h"},
        {"logits": "logits", "next": "token", "state": "h2"},
    )
    loop = {
        "times": 32.0,
        "steps": [body],
        "carry": {"prompt": "token", "h": "h2"},
        "collect": ["token"],
        "stop": {"value": "token", "equals": 2},
    }
    document = pipeline(
        step("enc", {"ids": "prompt"}, {"hidden": "h"}),
        {"repeat": loop},
        inputs="prompt",
        outputs="token h",
    )
    read = read_pipeline(package_of(write_package({"pipeline.json": document}), "dec", "enc"))
    assert read is not None
    first, second = read.steps
    assert first == ComponentStep(
        component="enc", inputs={"ids": "prompt"}, outputs={"hidden": "h"}
    )
    assert isinstance(second, RepeatStep)
    assert (second.times, type(second.times)) == (32, int)
    assert second.collect == ("token",)
    assert dict(second.carry) == {"prompt": "token", "h": "h2"}
    assert second.stop == StopCondition(value="token", equals=2)
    assert read.outputs[0].shape == ("n", 4, None)
    assert pipeline_components(read) == ("enc", "dec")
    assert pickle.loads(pickle.dumps(read)) == read


@pytest.mark.requirement("K14")
def test_components_come_in_the_order_of_their_first_run(write_package: WritePackage) -> None:
    inner = {"repeat": {"times": 1, "steps": [step("dec", {}, {"y": "a"})]}}
    document = pipeline(
        {"repeat": {"times": 1, "steps": [inner]}},
        step("enc", {}, {"y": "b"}),
        step("dec", {}, {"y": "c"}),
    )
    read = read_pipeline(package_of(write_package({"pipeline.json": document}), "enc", "dec"))
    assert read is not None
    assert pipeline_components(read) == ("dec", "enc")


def test_reports_all_that_is_wrong_at_once(write_package: WritePackage) -> None:
    document = pipeline(
        step("encoder", {"a": "later"}, {"y": "x"}),
        step("dec", {}, {"y": "later"}),
        outputs="nothing",
        inputs="x",
    )
    assert problems(write_package, document) == [
        "/steps/0/component: component model 'encoder' does not exist",
        "/steps/0/inputs/a: nothing before makes value 'later'",
        "/steps/0/outputs/y: value 'x' is made twice",
        "/outputs/0/name: nothing before makes value 'nothing'",
    ]


def test_error_says_which_components_there_are(write_package: WritePackage) -> None:
    root = write_package({"pipeline.json": pipeline(step("encoder", {}, {"y": "z"}))})
    with pytest.raises(
        PackageFormatError,
        match=r"'encoder' does not exist \(the package has 'dec', 'enc'\) \[ORT040\]",
    ):
        read_pipeline(package_of(root, "enc", "dec"))


def test_a_value_of_a_loop_is_not_seen_after_it_unless_collected(
    write_package: WritePackage,
) -> None:
    body = step("dec", {"x": "x"}, {"a": "kept", "b": "lost"})
    document = pipeline(
        {"repeat": {"times": 2, "steps": [body], "collect": ["kept"]}}, outputs="kept lost"
    )
    assert problems(write_package, document) == [
        "/outputs/1/name: nothing before makes value 'lost'"
    ]


def test_carry_joins_a_value_from_before_to_one_of_the_body(write_package: WritePackage) -> None:
    body = step("dec", {"x": "x"}, {"y": "y"})
    repeat = {"times": 2, "steps": [body], "carry": {"none": "y", "x": "z"}}
    assert problems(write_package, pipeline({"repeat": repeat})) == [
        "/steps/0/repeat/carry/none: nothing before makes value 'none'",
        "/steps/0/repeat/carry/x: nothing before makes value 'z'",
    ]


def test_collect_and_stop_need_values_of_the_body(write_package: WritePackage) -> None:
    repeat = {
        "times": 2,
        "steps": [step("dec", {}, {"y": "y"})],
        "collect": ["x", "z"],
        "stop": {"value": "w", "equals": True},
    }
    assert problems(write_package, pipeline({"repeat": repeat})) == [
        "/steps/0/repeat/collect/0: value 'x' is not made in the loop",
        "/steps/0/repeat/collect/1: nothing before makes value 'z'",
        "/steps/0/repeat/stop/value: nothing before makes value 'w'",
    ]


@pytest.mark.parametrize("times", [0, -1, 1_000_001, 1.5, True, "2"])
def test_bounds_the_rounds_of_a_loop(write_package: WritePackage, times: Any) -> None:
    (found,) = problems(
        write_package,
        pipeline({"repeat": {"times": times, "steps": [step("dec", {}, {"y": "y"})]}}),
    )
    assert found.startswith("/steps/0/repeat/times: is ")


def nested(depth: int) -> Any:
    body: Any = step("dec", {}, {"y": "y"})
    for _ in range(depth):
        body = {"repeat": {"times": 1, "steps": [body]}}
    return pipeline(body)


def test_bounds_the_depth_of_loops(write_package: WritePackage) -> None:
    assert problems(write_package, nested(8)) == []
    (found,) = problems(write_package, nested(9))
    assert found.endswith("/repeat: is a loop inside 8 others")


def test_a_step_is_a_component_or_a_loop_but_not_both(write_package: WritePackage) -> None:
    both = step("dec", {}, {"y": "y"}) | {
        "repeat": {"times": 1, "steps": [step("dec", {}, {"y": "z"})]}
    }
    assert problems(write_package, pipeline(both)) == [
        "/steps/0: is not exactly one of a component and a repeat"
    ]
    assert problems(write_package, pipeline({})) == ["/steps/0: is an empty object"]


def test_refuses_a_newer_major_version(write_package: WritePackage) -> None:
    document = pipeline(step("dec", {}, {"y": "y"})) | {"schema_version": "2.0"}
    assert problems(write_package, document) == [
        "/schema_version: has schema_version 2.0, this ortpkg knows 1.x"
    ]
