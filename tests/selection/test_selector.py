"""select_variant: filters, ties, warnings, messages."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from ortpkg.foundations.errors import UsageError
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.matching.reasons import no_suitable_variant_message
from ortpkg.selection.matching.verdict import ReasonCode


def test_a_filter_for_a_missing_device_says_what_was_asked_what_is_there_and_why_each_fell(
    machines: Any, variants: Any, select: Any
) -> None:
    selection = select(
        machines["server"], [variants["cpu"], variants["ov-npu"], variants["cuda"]], device="npu"
    )

    assert selection.best is None
    assert (
        no_suitable_variant_message(selection)
        == "no variant of component 'model' fits this machine (asked for: policy default, device"
        " npu)\n  the machine has: CPU (Xeon)\n  execution providers: OpenVINOExecutionProvider,"
        " CPUExecutionProvider, AzureExecutionProvider\n  'cpu': DEVICE_NOT_REQUESTED: only an"
        " NPU was asked for; this is a CPU, and this machine has no NPU\n  'ov-npu':"
        " DEVICE_NOT_PRESENT: it needs an NPU; this machine has none\n  'cuda':"
        " EP_NOT_AVAILABLE: 'CUDAExecutionProvider' is not available here"
    )


def test_variants_that_only_declaration_order_separates_are_ties(
    machines: Any, make_variant: Any, select: Any
) -> None:
    twins = [make_variant(name, ep="CPUExecutionProvider") for name in ("first", "second", "third")]

    selection = select(machines["bare"], [*twins, make_variant("other")])

    assert selection.best.variant.name == "first"
    assert selection.ties == ("second", "third")
    assert selection.verdicts[1].decided_by == "declaration order"


def test_a_package_without_a_variant_for_a_cpu_is_warned_of(
    machines: Any, variants: Any, select: Any
) -> None:
    warned = select(machines["server"], [variants["cuda"], variants["ov-npu"]])
    covered = select(machines["server"], [variants["cuda"], variants["ov-cpu"]])

    assert warned.warnings == (
        "no variant of component 'model' covers a CPU: nothing fits a machine without accelerators",
    )
    assert covered.warnings == ()


def test_what_discovery_could_not_find_out_becomes_a_warning(
    machines: Any, variants: Any, select: Any
) -> None:
    assert select(machines["bare"], [variants["cpu"]], notes=["openvino crashed"]).warnings == (
        "openvino crashed",
    )


def test_a_compatibility_callback_that_raises_keeps_the_variant_and_is_shown(
    machines: Any, variants: Any, select: Any
) -> None:
    selection = select(machines["server"], [variants["ov-raises"]])

    assert selection.best.compatibility is CompiledModelCompatibility.NOT_APPLICABLE
    assert selection.best.notes == (
        (
            "OpenVINOExecutionProvider failed to judge ep_compatibility_info: \"the EP's library is"
            ' out of order"; not counted'
        ),
        "no record of the model that it was compiled of: whether that is older cannot be told",
    )


def test_a_compatibility_string_of_an_ep_that_is_not_installed_is_unknown(
    machines: Any, variants: Any, select: Any
) -> None:
    (verdict,) = select(machines["bare"], [variants["ov-optimal"]]).verdicts

    assert (verdict.code, verdict.compatibility) == (
        ReasonCode.EP_NOT_AVAILABLE,
        CompiledModelCompatibility.UNKNOWN,
    )


@pytest.mark.requirement("K10")
def test_compatibility_is_judged_on_each_device_by_itself(
    machines: Any, make_variant: Any, select: Any
) -> None:
    asked = []

    def rate(ep_device: EpDevice, info: str) -> CompiledModelCompatibility:
        assert ep_device.device is not None
        asked.append((ep_device.device.name, info))
        return CompiledModelCompatibility.OPTIMAL

    selection = select(
        machines["core-ultra"],
        [make_variant("v", ep="openvino", compat="blob")],
        compatibility=rate,
    )

    assert len(selection.verdicts) == 4, (
        "somebody looks: on three devices, and on an EP that is another"
    )
    assert asked == [("AI Boost", "blob"), ("Arc", "blob"), ("Core Ultra", "blob")]


def test_each_compatibility_string_is_asked_once_whoever_looks(
    machines: Any, make_variant: Any, select: Any
) -> None:
    asked: list[str] = []

    def rate(_ep_device: EpDevice, info: str) -> CompiledModelCompatibility:
        asked.append(info)
        return CompiledModelCompatibility[info.partition(" ")[0]]

    infos = [
        "UNSUPPORTED 0",
        "PREFER_RECOMPILATION 1",
        "OPTIMAL 2",
        "OPTIMAL 3",
        "PREFER_RECOMPILATION 4",
    ]
    made = [
        make_variant(f"v{at}", ep="openvino", device="npu", compat=info)
        for at, info in enumerate(infos)
    ]

    selection = select(machines["core-ultra"], made, compatibility=rate)

    assert selection.best.variant.name == "v2"
    assert selection.ties == ("v3",)
    assert {verdict.variant.name for verdict in selection.verdicts} == {
        "v0",
        "v1",
        "v2",
        "v3",
        "v4",
    }
    assert asked == infos, "each string once for the one NPU"


@pytest.mark.requirement("K08")
def test_the_device_rule_is_skipped_for_a_named_ep_without_devices_and_says_so(
    machines: Any, variants: Any, select: Any
) -> None:
    selection = select(machines["old-cuda"], [variants["cuda-npu"]])

    assert selection.best.notes == (
        "device rule skipped: CUDAExecutionProvider reports no devices",
    )


@pytest.mark.requirement("K10")
def test_architecture_is_shown_but_not_evaluated_unless_asked(
    machines: Any, make_variant: Any, select: Any
) -> None:
    variant = make_variant("v", ep="cpu", architecture="sapphirerapids")

    (shown,) = [v for v in select(machines["core-ultra"], [variant]).verdicts if v.is_eligible]
    checked = select(machines["core-ultra"], [variant], check_architecture=True)

    assert shown.notes == ("architecture 'sapphirerapids' not checked (here: 'skylake')",)
    assert checked.best is None
    assert ReasonCode.ARCHITECTURE_MISMATCH in {verdict.code for verdict in checked.verdicts}


def test_a_cpu_runs_what_was_made_for_its_ancestors(
    machines: Any, make_variant: Any, select: Any
) -> None:
    variant = make_variant("v", ep="cpu", architecture="haswell")

    assert select(machines["core-ultra"], [variant], check_architecture=True).best is not None


def test_an_unknown_policy_is_a_usage_error_with_the_nearest_name(
    machines: Any, variants: Any, select: Any
) -> None:
    with pytest.raises(
        UsageError,
        match=r"there is no policy 'prefer-nup' \(did you mean 'prefer-npu'\?\) \(policies: ",
    ):
        select(machines["bare"], [variants["cpu"]], policy="prefer-nup")


def test_an_unknown_device_is_a_usage_error_with_the_list(
    machines: Any, variants: Any, select: Any
) -> None:
    with pytest.raises(
        UsageError, match=r"there is no device type 'tpu'.*; known are: cpu, gpu, npu"
    ):
        select(machines["bare"], [variants["cpu"]], device="tpu")


def test_a_mistyped_ep_is_a_usage_error_with_the_nearest_name(
    machines: Any, variants: Any, select: Any
) -> None:
    with pytest.raises(
        UsageError,
        match=r"no execution provider 'openvno'; did you mean 'OpenVINOExecutionProvider'\?",
    ):
        select(machines["bare"], [variants["cpu"]], ep="openvno")


def test_a_variant_with_a_mistyped_ep_is_told_the_nearest_name(
    machines: Any, variants: Any, select: Any
) -> None:
    (verdict,) = select(machines["rtx"], [variants["typo"]]).verdicts

    assert (
        verdict.reason
        == "'CUDAExecutionProvidr' is not available here (did you mean 'CUDAExecutionProvider'?)"
    )


def test_names_from_a_package_cannot_steer_a_terminal(
    machines: Any, make_variant: Any, select: Any
) -> None:
    selection = select(
        machines["bare"], [make_variant("\x1b[2J", ep="\x1b]0;x\x07", device="\x1b[1m")]
    )

    assert "\x1b" not in no_suitable_variant_message(selection)


def test_a_component_without_variants_selects_nothing(machines: Any, select: Any) -> None:
    selection = select(machines["bare"], [])

    assert selection.best is None
    assert no_suitable_variant_message(selection).endswith("it has no variants")


@pytest.mark.requirement("K16")
def test_selection_loads_neither_numpy_nor_onnx_nor_a_backend() -> None:
    code = (
        "import sys, ortpkg.selection.matching.explanation, ortpkg.runtime.providers.machine_offer as machine\n"
        "machine.discover_ep_devices\n"
        "loaded = {'numpy', 'onnx', 'openvino', 'onnxruntime', 'ml_dtypes'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {sorted(loaded)}' if loaded else 0)"
    )

    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert finished.returncode == 0, finished.stderr
