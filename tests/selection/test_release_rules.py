"""Two generations of onnxruntime's rules as data, and what is said beyond the winner.

tests/interop/ asks the releases themselves; here are the rules that no EP of a stock wheel can
show, too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.errors import UsageError
from ortpkg.foundations.onnxruntime_releases import (
    ONNXRUNTIME_1_27,
    ONNXRUNTIME_1_31,
    ONNXRUNTIME_1_32,
)
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.policies import find_policy, policy_named
from ortpkg.package.package_info import ComponentInfo, Constraints, VariantInfo
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.matching.explanation import selection_to_json
from ortpkg.selection.matching.reasons import no_suitable_variant_message
from ortpkg.selection.matching.verdict import ReasonCode, Selection
from ortpkg.selection.releases.release_selector import select_as_release

_ROOT = Path("package").absolute()
_TABLE: dict[str, Any] = json.loads(
    (Path(__file__).parent / "release_rules.json").read_text(encoding="utf-8")
)
_ROWS = [(policy, row) for policy in (ONNXRUNTIME_1_27, ONNXRUNTIME_1_31) for row in _TABLE[policy]]

_CPU, _NPU, _GPU = (
    HardwareDevice(type=each, name=each.value)
    for each in (DeviceType.CPU, DeviceType.NPU, DeviceType.GPU)
)


def _offer(ep: str, device: HardwareDevice | None, backend: str = "onnxruntime") -> EpDevice:
    return EpDevice(ep_name=ep, device=device, backend=backend)


_OFFERS = (
    _offer("mock", _CPU),
    _offer("mock", _NPU),
    _offer("bare", None),
    _offer("gpu", _GPU),
    _offer("CPUExecutionProvider", _CPU),
    _offer("CPUExecutionProvider", _CPU, "embedded"),
)


def _rate(_ep_devices: Sequence[EpDevice], info: str) -> Any:
    """A compatibility string is the rating that it gets.

    A text that is none is one that nobody has heard of.
    """
    if info == "raises":
        raise RuntimeError("out of order")
    return CompiledModelCompatibility(info) if info.startswith("EP_") else info


def _variant(name: str, *facts: str | None) -> VariantInfo:
    ep, device, compat, architecture = (*facts, None, None, None, None)[:4]
    stated = Constraints(
        ep=ep, device=device, architecture=architecture, ep_compatibility_info=compat
    )
    return VariantInfo(
        name=name,
        component_name="m",
        directory=_ROOT,
        model_path=_ROOT / "m.onnx",
        constraints=stated,
        component_constraints=stated,
    )


def _select(
    policy: str, variants: Sequence[VariantInfo], eps: Sequence[str] = (), **more: Any
) -> Selection:
    component = ComponentInfo(name="m", directory=_ROOT, variants=tuple(variants))
    more.setdefault("compatibility", _rate)
    ep_devices = more.pop("ep_devices", _OFFERS)
    return select_as_release(
        component, ep_devices, policy=policy, hardware=(_CPU, _NPU), eps=eps, **more
    )


@pytest.mark.requirement("K16")
@pytest.mark.parametrize(
    ("policy", "row"),
    _ROWS,
    ids=[f"{policy}-{row['rule']}-{row['says'].replace(' ', '-')}" for policy, row in _ROWS],
)
def test_the_release_selects_what_the_table_says(policy: str, row: dict[str, Any]) -> None:
    selection = _select(policy, [_variant(*facts) for facts in row["variants"]], row["eps"])

    codes = {verdict.variant.name: verdict.code.value for verdict in reversed(selection.verdicts)}
    assert (selection.best.variant.name if selection.best else None) == row["selects"]
    assert [codes[facts[0]] for facts in row["variants"]] == row["codes"]
    assert selection.unpredictable == tuple(row.get("unpredictable", ()))
    if policy == ONNXRUNTIME_1_31:
        assert selection.ties == tuple(row.get("ties", ()))


def test_the_table_has_every_rule() -> None:
    assert {row["rule"] for row in _TABLE[ONNXRUNTIME_1_27]} == {
        f"A{number}" for number in range(1, 7)
    }
    assert {row["rule"] for row in _TABLE[ONNXRUNTIME_1_31]} == {
        f"C{number}" for number in range(7)
    }


@pytest.mark.requirement("K16")
def test_a_tie_that_1_27_does_not_decide_is_a_warning_with_the_names() -> None:
    selection = _select(ONNXRUNTIME_1_27, [_variant("z", "mock"), _variant("a", "mock")], ["mock"])

    assert selection.warnings == (
        (
            "unpredictable: onnxruntime 1.27 does not specify which of 'a', 'z' it selects; on"
            " Linux 'a' was seen to win"
        ),
    )
    assert selection_to_json(selection)["unpredictable"] == ["a", "z"]


@pytest.mark.parametrize(
    "variants",
    [
        [_variant(f"v{index:02}", "mock") for index in range(14)],
        [_variant("a", "CPUExecutionProvider"), _variant("b", "mock"), _variant("c", "mock")],
        [_variant("a", None, "npu"), _variant("b")],
    ],
    ids=["more than 13", "the first by name is not tied", "one states nothing"],
)
def test_of_most_ties_no_order_was_seen(variants: list[VariantInfo]) -> None:
    selection = _select(ONNXRUNTIME_1_27, variants, ["mock"])

    assert len(selection.unpredictable) > 1
    assert selection.warnings[0].endswith(" it selects; no order was seen")


def test_only_the_matching_device_is_rated_or_all_of_them() -> None:
    asked = []

    def rate(ep_devices: Sequence[EpDevice], info: str) -> CompiledModelCompatibility:
        asked.append(([each.device.name for each in ep_devices if each.device is not None], info))
        return CompiledModelCompatibility.OPTIMAL

    for policy in (ONNXRUNTIME_1_27, ONNXRUNTIME_1_31):
        _select(
            policy,
            [_variant("d", "mock", "npu", "x"), _variant("n", "mock", None, "y")],
            ["mock"],
            compatibility=rate,
        )

    assert asked == [(["npu"], "x"), (["npu", "cpu"], "y")] * 2


def test_a_variant_with_a_device_runs_on_that_device_only() -> None:
    selection = _select(ONNXRUNTIME_1_31, [_variant("v", "mock", "npu")], ["mock"])

    assert [verdict.ep_device for verdict in selection.verdicts] == [_offer("mock", _NPU)]


def test_a_variant_that_more_than_one_backend_could_run_has_a_verdict_for_each() -> None:
    selection = _select(ONNXRUNTIME_1_31, [_variant("v", "CPUExecutionProvider")])

    assert [
        (each.ep_device and each.ep_device.backend, each.code.value, each.decided_by)
        for each in selection.verdicts
    ] == [
        ("onnxruntime", "SELECTED", None),
        ("embedded", "LOWER_RANK", "EP device order"),
    ]


@pytest.mark.parametrize(("device", "is_selected"), [("cpu", True), ("CPU", True), ("npu", False)])
def test_in_1_32_the_cpu_has_a_device(device: str, is_selected: bool) -> None:
    variants = [_variant("v", "CPUExecutionProvider", device)]

    assert (_select(ONNXRUNTIME_1_32, variants).best is not None) is is_selected
    assert _select(ONNXRUNTIME_1_31, variants).best is None


def test_devices_are_those_of_another_backend_where_onnxruntime_has_not_the_ep() -> None:
    offers = [_offer("OpenVINOExecutionProvider", _NPU, "openvino")]

    selection = _select(
        ONNXRUNTIME_1_31,
        [_variant("v", "OpenVINOExecutionProvider", "npu")],
        ["openvino"],
        ep_devices=offers,
    )

    assert selection.best is not None
    assert selection.warnings == (
        (
            "no onnxruntime here has OpenVINOExecutionProvider: its devices are those that"
            " 'openvino' reports"
        ),
    )


def test_a_second_ep_that_does_not_count_is_a_warning() -> None:
    selection = _select(ONNXRUNTIME_1_31, [_variant("v", "mock")], ["mock", "cpu"])

    assert selection.warnings == (
        "onnxruntime 1.31 selects by one execution provider only, here mock",
    )
    assert selection.ep == "mock, CPUExecutionProvider"


def test_a_package_that_the_release_does_not_open_has_no_variant() -> None:
    selection = _select(
        ONNXRUNTIME_1_31, [_variant("v", "mock")], ["mock"], refusal="it does not open: why"
    )

    assert [(each.code.value, each.reason) for each in selection.verdicts] == [
        ("PACKAGE_REFUSED", "it does not open: why")
    ]
    assert "'v': PACKAGE_REFUSED: it does not open: why" in no_suitable_variant_message(selection)


def test_a_variant_without_keys_that_the_release_reads_is_not_there_for_it() -> None:
    older = VariantInfo(
        name="v",
        component_name="m",
        directory=_ROOT,
        model_path=None,
        constraints=Constraints(ep="mock"),
    )

    (verdict,) = _select(ONNXRUNTIME_1_31, [older], ["mock"]).verdicts

    assert (verdict.code.value, verdict.reason) == (
        "PACKAGE_REFUSED",
        "it has no keys that onnxruntime 1.31 reads",
    )


def test_an_ep_that_nobody_can_rate_by_is_noted() -> None:
    selection = _select(
        ONNXRUNTIME_1_31,
        [_variant("v", "mock", None, "x")],
        ["mock"],
        compatibility=lambda _ep_devices, _info: CompiledModelCompatibility.UNKNOWN,
    )

    assert selection.best is not None
    assert selection.best.notes == (
        "its compatibility string cannot be rated here: counted as not applicable",
    )


def test_ranks_are_named_by_the_criteria_of_the_release() -> None:
    selection = _select(
        ONNXRUNTIME_1_31, [_variant("v", "mock", None, "EP_SUPPORTED_OPTIMAL")], ["mock"]
    )

    assert selection_to_json(selection)["selected"]["rank"] == {
        "score": -100,
        "declaration order": 0,
        "EP device order": 0,
    }


def test_a_mistyped_ep_is_a_usage_error_with_the_nearest_name() -> None:
    with pytest.raises(
        UsageError, match="no execution provider 'azrue'; did you mean 'AzureExecutionProvider'"
    ):
        _select(ONNXRUNTIME_1_31, [_variant("v", "mock")], ["azrue"])


def test_policies_of_releases_are_known_by_name_but_are_no_order_of_devices() -> None:
    assert policy_named("ONNXRUNTIME_1.31") == ONNXRUNTIME_1_31
    with pytest.raises(
        UsageError,
        match=r"no policy 'onnxruntime-1.30' \(did you mean 'onnxruntime-1.32'\?\) \(policies: ",
    ):
        policy_named("onnxruntime-1.30")
    with pytest.raises(UsageError, match=r"policy onnxruntime-1\.27 is no order of devices"):
        find_policy("onnxruntime-1.27")


def test_the_selection_of_a_variant_that_is_called_like_another_up_to_a_nul_is_ambiguous() -> None:
    """As in 1.31: whether the other one fits or not. Where another variant wins, nothing is."""
    twins = [_variant("v\0x", "other"), _variant("v", "mock"), _variant("w", "mock")]

    selection = _select(ONNXRUNTIME_1_31, twins, ["mock"])

    assert selection.best is None
    assert {verdict.code for verdict in selection.verdicts} == {ReasonCode.PACKAGE_REFUSED}
    assert "several variants are called 'v' up to a NUL" in selection.verdicts[0].reason
    winner = _select(ONNXRUNTIME_1_31, [twins[2], *twins[:2]], ["mock"]).best
    assert winner is not None
    assert winner.variant.name == "w"


def test_to_1_27_a_name_that_goes_on_after_a_nul_is_another_name() -> None:
    selection = _select(
        ONNXRUNTIME_1_27, [_variant("v\0x", "other"), _variant("v", "mock")], ["mock"]
    )

    assert selection.best is not None
    assert selection.best.variant.name == "v"
