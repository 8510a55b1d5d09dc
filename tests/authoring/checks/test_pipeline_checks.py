"""Values followed through loops, and through components that are wired by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.authoring.checks.trees import Tree, findings_of, model, pipeline_tree, write_tree


def _looped(out_shape: list[Any], **repeat: Any) -> Tree:
    """The second component in a loop over ``state``, which the first one makes."""
    tree = pipeline_tree()
    pipeline = tree["pipeline.json"]
    step = {"component": "second", "inputs": {"x": "state"}, "outputs": {"y": "next"}}
    loop = {"times": 3, "steps": [step], "carry": {"state": "next"}, "collect": ["next"]} | repeat
    pipeline["steps"] = [
        {"component": "first", "inputs": {"x": "in"}, "outputs": {"y": "state"}},
        {"repeat": loop},
    ]
    pipeline["outputs"] = [{"name": "next", "type": "tensor(float)", "shape": out_shape}]
    return tree


def _misfits(tmp_path: Path, tree: Tree) -> list[tuple[str, str]]:
    found = findings_of(write_tree(tmp_path / "p", tree), select=["ORT5"])
    return [(finding.pointer, finding.message) for finding in found.get("ORT503", [])]


def test_collected_rounds_have_one_more_axis(tmp_path: Path) -> None:
    assert _misfits(tmp_path, _looped([3, "n", 4])) == []


def test_a_wrong_number_of_rounds_is_noticed(tmp_path: Path) -> None:
    assert _misfits(tmp_path, _looped([2, "n", 4])) == [
        (
            "/outputs/0",
            "output 'next' has 3 elements on axis 0, where 2 are expected by its declaration",
        )
    ]


def test_the_number_of_rounds_is_open_where_the_loop_can_stop(tmp_path: Path) -> None:
    assert _misfits(tmp_path, _looped([2, "n", 4], stop={"value": "next", "equals": 0})) == []


def test_what_takes_a_values_place_must_be_of_its_kind(tmp_path: Path) -> None:
    tree = _looped([3, "n", 4, 1]) | {
        "second-cpu/model.onnx": model("(float[n, 4] x) => (float[n, 4, 1] y)")
    }

    assert _misfits(tmp_path, tree) == [
        (
            "/steps/1/repeat/carry/state",
            "value 'next', which takes the place of 'state', has the rank 3, where 2 is expected",
        )
    ]


def test_without_a_pipeline_values_are_wired_by_name(tmp_path: Path) -> None:
    tree = pipeline_tree() | {"second-cpu/model.onnx": model("(int64[n] y) => (int64[n] z)")}
    del tree["pipeline.json"]

    assert _misfits(tmp_path, tree) == [
        (
            "",
            (
                "value 'y', which 'first' makes and 'second' takes, is 'tensor(float)', where"
                " 'tensor(int64)' is expected"
            ),
        )
    ]
