"""Steps of ``make gpu`` on this machine's CPU: those that take seconds; the rest by its answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.gpu.__main__ import main
from scripts.gpu.steps import STEPS, Target, _judge_latency, _judge_run, _selected

_CUDA = Target("CUDA", "CUDAExecutionProvider", "gpu")


@pytest.mark.slow
def test_the_quick_steps_make_a_table_on_a_cpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    steps = ["machine", "plain", "libraries", "devices"]

    code = main(["--here", "--on", "cpu", "--report", str(tmp_path), "--only", *steps])

    document = json.loads((tmp_path / "gpu_report.json").read_text())
    outcomes = {row["step"]: row["outcome"] for row in document["rows"]}
    assert code == 0
    assert outcomes == {
        "card": "not tried",
        "plain onnxruntime": "yes",
        "NVIDIA's libraries": "yes",
        "devices": "yes",
    }
    assert document["facts"]["onnxruntime"]
    assert "gpu_report.md" in capsys.readouterr().out


def test_every_step_is_known_by_name_and_says_what_it_does() -> None:
    assert all(step.__doc__ for step in STEPS.values())
    assert {"devices", "doctor", "select", "run", "bench", "big", "serve", "batch"} <= set(STEPS)


def test_a_step_that_fails_is_a_row_and_the_others_go_on(tmp_path: Path) -> None:
    # Without the step before, the packages are not there.
    main(["--here", "--on", "cpu", "--report", str(tmp_path), "--only", "select", "left"])

    (row,) = json.loads((tmp_path / "gpu_report.json").read_text())["rows"]
    assert (row["step"], row["outcome"]) == ("select", "no")
    assert row["details"].startswith("KeyError")


def _ran(**changes: Any) -> dict[str, Any]:
    return {
        "ran": [
            {
                "variant": "cuda",
                "ep": changes.pop("ep", _CUDA.ep),
                "placement": {"entries": [{"nodes": 12, "ep": _CUDA.ep}]},
            }
        ],
        "samples": [
            {
                "matches": changes.pop("matches", True),
                "largest_absolute_error": {"logits": 0.01},
                "right": 357,
                "labelled": 360,
                "median_latency_s": 0.0001,
            }
        ],
        "as_asked": changes.pop("as_asked", True),
        "load_s": 1.5,
    }


@pytest.mark.parametrize(
    ("changes", "is_right"),
    [({}, True), ({"matches": False}, False), ({"as_asked": False}, False), ({"ep": "x"}, False)],
)
def test_a_run_counts_where_it_was_asked_for_with_the_right_outputs(
    changes: dict[str, Any], is_right: bool
) -> None:
    verdict, details = _judge_run(_CUDA)(_ran(**changes))

    assert verdict is is_right
    assert details == (
        "cuda: nodes 12 on CUDA; error 0.01, 357 of 360 right; loaded in 1.50 s, 0.100 ms a run"
    )


@pytest.mark.parametrize(
    ("changes", "is_right"),
    [
        ({}, True),
        ({"own_s": 0.0013, "ratio": 1.3}, False),
        ({"started": False}, False),
        ({"how": "ortpkg bound to cpu"}, False),
        ({"placement": [{"fallback": True}]}, False),
    ],
)
def test_a_bound_run_counts_where_both_are_on_the_device_and_as_fast(
    changes: dict[str, Any], is_right: bool
) -> None:
    answer = {
        "placement": [{"fallback": False}],
        "started": True,
        "own_s": 0.001,
        "onnxruntime_s": 0.001,
        "ratio": 1.0,
        "difference": 0.0,
        "how": "both bound to cuda",
    }
    assert _judge_latency(True)({**answer, **changes})[0] is is_right


def test_what_was_selected_is_told_in_words() -> None:
    chosen = {
        "variant": "cuda",
        "ep": "CUDAExecutionProvider",
        "backend": "onnxruntime",
        "device": "gpu",
    }
    assert _selected({"selections": [{"selected": chosen}]}) == (
        "cuda on CUDAExecutionProvider (onnxruntime) gpu"
    )
    assert _selected({"selections": [{"selected": None}]}) == _selected(None) == ""
