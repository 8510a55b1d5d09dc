"""The tree and the JSON object of a selection."""

from __future__ import annotations

import json
import pickle
from typing import Any

from ortpkg.selection.matching.explanation import Explanation, Status, explain, selection_to_json


def _lines(node: Explanation, depth: int = 0) -> list[str]:
    own = f"{'  ' * depth}[{node.status}] {node.code + ' ' if node.code else ''}{node.label}"
    return [own, *(line for child in node.children for line in _lines(child, depth + 1))]


def test_the_tree_says_what_was_considered_and_why_each_variant_fell(
    machines: Any, variants: Any, select: Any
) -> None:
    selection = select(
        machines["core-ultra"], [variants[name] for name in ("cpu", "ov-npu", "cuda")], device="gpu"
    )

    assert _lines(explain(selection)) == [
        "[rejected] component 'model': no variant fits",
        "  [plain] considered, in the order of preference (asked for: policy default, device gpu)",
        "    [plain] OpenVINOExecutionProvider (openvino) on NPU (AI Boost)",
        "    [plain] OpenVINOExecutionProvider (openvino) on GPU (Arc)",
        "    [plain] OpenVINOExecutionProvider (openvino) on CPU (Core Ultra)",
        "    [plain] CPUExecutionProvider (embedded) on CPU (Core Ultra)",
        "  [rejected] DEVICE_NOT_REQUESTED 'cpu': only a GPU was asked for; this is a CPU",
        "    [rejected] DEVICE_NOT_REQUESTED CPUExecutionProvider (embedded) on CPU (Core Ultra)",
        "    [rejected] EP_MISMATCH 3 of another EP: it is for 'CPUExecutionProvider'",
        "  [rejected] DEVICE_NOT_REQUESTED 'ov-npu': only a GPU was asked for; this is an NPU",
        (
            "    [rejected] DEVICE_NOT_REQUESTED OpenVINOExecutionProvider (openvino) on NPU (AI"
            " Boost)"
        ),
        (
            "    [rejected] DEVICE_MISMATCH OpenVINOExecutionProvider (openvino) on GPU (Arc): "
            "it needs an NPU; this EP device is a GPU"
        ),
        (
            "    [rejected] DEVICE_MISMATCH OpenVINOExecutionProvider (openvino) on CPU (Core"
            " Ultra): it needs an NPU; this EP device is a CPU"
        ),
        (
            "    [rejected] EP_MISMATCH CPUExecutionProvider (embedded) on CPU (Core Ultra): "
            "it is for 'OpenVINOExecutionProvider'"
        ),
        "  [rejected] EP_NOT_AVAILABLE 'cuda': 'CUDAExecutionProvider' is not available here",
        "    [rejected] EP_NOT_AVAILABLE no execution provider",
    ]


def test_the_tree_shows_winner_ties_ratings_and_warnings(
    machines: Any, make_variant: Any, select: Any
) -> None:
    chosen = [
        make_variant(name, ep="openvino", device="gpu", compat="EP_SUPPORTED_OPTIMAL")
        for name in ("a", "b")
    ]

    tree = explain(select(machines["core-ultra"], chosen))

    assert tree.status is Status.SELECTED
    assert (
        tree.label == "component 'model': 'a' on OpenVINOExecutionProvider (openvino) on GPU (Arc)"
    )
    assert "      [plain] compatibility: EP_SUPPORTED_OPTIMAL" in _lines(tree)
    assert "  [warning] tied with the winner, declared later: 'b'" in _lines(tree)
    assert [child.label for child in tree.children if child.status is Status.WARNING][1:] == [
        "no variant of component 'model' covers a CPU: nothing fits a machine without accelerators"
    ]


def test_the_json_object_has_every_verdict_and_points_at_ep_devices(
    machines: Any, variants: Any, select: Any
) -> None:
    selection = select(machines["core-ultra"], [variants["ov"], variants["cuda"]])

    found = json.loads(json.dumps(selection_to_json(selection)))

    assert found["schema_version"] == 1
    assert found["selected"] == found["verdicts"][0]
    assert found["selected"]["rank"] == {
        "device": 1,
        "speed": 2,
        "compatibility": 1,
        "architecture": 0,
        "named EP": 0,
        "backend": 0,
        "declaration order": 0,
        "EP device order": 0,
    }
    assert found["ep_devices"][found["selected"]["ep_device"]]["device"]["name"] == "AI Boost"
    assert [
        (entry["variant"], entry["code"], entry["ep_device"]) for entry in found["verdicts"]
    ] == [
        ("ov", "SELECTED", 0),
        ("ov", "LOWER_RANK", 1),
        ("ov", "LOWER_RANK", 2),
        ("ov", "EP_MISMATCH", 3),
        ("cuda", "EP_NOT_AVAILABLE", None),
    ]


def test_a_selection_survives_pickling(machines: Any, variants: Any, select: Any) -> None:
    selection = select(machines["rtx"], [variants["cuda"], variants["cpu"]])

    assert selection_to_json(pickle.loads(pickle.dumps(selection))) == selection_to_json(selection)
