"""The path of a winner: every verdict falls out once, at the criterion that its selection says."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ortpkg.report.sections.path_picture import path_picture
from ortpkg.report.sections.winner_path import WinnerPath, winner_path
from ortpkg.selection.matching.ranking import MEASURED_CRITERIA
from ortpkg.selection.matching.verdict import Selection
from tests.selection.conftest import make_records

MACHINES = (
    "bare",
    "server",
    "core-ultra",
    "rtx",
    "old-cuda",
    "snapdragon",
    "workstation",
    "edge",
)
POLICIES = ("default", "prefer-cpu", "measured")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("policy", POLICIES)
def test_who_falls_out_and_who_remains_are_those_who_were_there_before(
    machine: str, policy: str, machines: Any, variants: Any, select: Any
) -> None:
    selection = select(machines[machine], list(variants.values()), policy=policy)
    path = winner_path(selection)

    rejected = sum(each.count for each in path.rejections)
    assert path.judged_count == len(selection.verdicts) == rejected + path.eligible_count
    remaining = path.eligible_count
    for step in path.steps:
        remaining -= step.fallen_count
        assert remaining == step.remaining_count
    assert remaining == 1
    _assert_counted_as_selected(path, selection)


def _assert_counted_as_selected(path: WinnerPath, selection: Selection) -> None:
    decided = Counter(each.decided_by for each in selection.verdicts if each.decided_by)
    counted = {s.criterion: s.fallen_count for s in path.steps if s.fallen_count}
    assert counted == decided
    codes = Counter(each.code.value for each in selection.verdicts if not each.is_eligible)
    assert {each.code: each.count for each in path.rejections} == codes


def test_each_step_says_in_words_what_the_winner_has_and_the_losers_have(
    machines: Any, variants: Any, select: Any
) -> None:
    chosen = [variants[name] for name in ("cpu", "any", "ov-gpu", "ov-npu")]
    path = winner_path(select(machines["core-ultra"], chosen))

    said = [(step.criterion, step.winner, step.fallen, step.remaining_count) for step in path.steps]
    assert said == [
        (
            "device",
            "NPU",
            (
                "integrated GPU: ov-gpu on openvino (openvino), any on openvino (openvino);"
                " CPU: cpu on cpu (embedded), any on openvino (openvino), any on cpu (embedded)"
            ),
            2,
        ),
        ("speed", "as usual", "", 2),
        ("compatibility", "not compiled for an EP", "", 2),
        ("architecture", "not compared", "", 2),
        ("named EP", "for openvino", "for any EP: any on openvino (openvino)", 1),
    ]
    assert path.steps[0].question == (
        "The kind of device, in the order of policy default: discrete GPU, NPU, integrated GPU, CPU."
    )
    assert path.winner == "ov-npu on openvino (openvino)"


def test_times_are_told_as_times(machines: Any, variants: Any, select: Any) -> None:
    machine = machines["server"]
    times = [
        {"variant": name, "ep": "CPUExecutionProvider", "backend": "embedded", "device": "cpu"}
        | {"p50_ms": median_ms, "p95_ms": median_ms}
        for name, median_ms in (("fp32", 4.0), ("int8", 1.5))
    ]
    selection = select(
        machine,
        [variants["fp32"], variants["int8"]],
        policy="measured",
        records=make_records({"measurements": times}, machine),
    )
    steps = {step.criterion: step for step in winner_path(selection).steps}

    assert steps["measured"].winner == "measured here"
    assert steps["measured"].losers == "not measured"
    assert (steps["latency"].winner, steps["latency"].losers) == ("1.5 ms", "4.0 ms")


def test_of_many_candidates_some_are_named(machines: Any, make_variant: Any, select: Any) -> None:
    many = [make_variant(f"v{number}", ep="CPUExecutionProvider") for number in range(20)]
    path = winner_path(select(machines["bare"], many))

    last = path.steps[-1]
    assert last.criterion == "declaration order"
    assert last.fallen_count == 19
    assert last.losers == (
        "declared as number 2, declared as number 3, declared as number 4, declared as number 5,"
        " declared as number 6 and 14 more"
    )


def test_where_nothing_fits_the_rejections_say_why(
    machines: Any, variants: Any, select: Any
) -> None:
    path = winner_path(select(machines["bare"], [variants["cuda"], variants["ov-npu"]]))

    assert path.steps == ()
    assert path.winner == ""
    assert [(each.code, each.count, each.example) for each in path.rejections] == [
        ("EP_NOT_AVAILABLE", 2, "cuda: 'cuda' is not available here")
    ]
    picture = path_picture(path, name="p", title="Path")
    assert "0 left, 2 fell out. Winner: none." in picture


def test_the_picture_has_a_bar_for_each_step(machines: Any, variants: Any, select: Any) -> None:
    path = winner_path(select(machines["edge"], list(variants.values())))
    picture = path_picture(path, name="p", title="Path")

    assert picture.count('class="kept"') == 2 + len(path.steps)
    for step in path.steps:
        assert f">{step.criterion}</text>" in picture
    assert f"✔ {path.winner}" in picture


def test_every_criterion_is_put_into_words(machines: Any, variants: Any, select: Any) -> None:
    selection = select(machines["workstation"], list(variants.values()), policy="measured")
    assert selection.criteria == MEASURED_CRITERIA
    for step in winner_path(selection).steps:
        assert step.question != f"The best {step.criterion} comes first."
