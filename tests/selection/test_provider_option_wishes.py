"""Provider options of the caller: whose they are, and their part in the choice (K09, K12)."""

from __future__ import annotations

from typing import Any

import pytest

from ortpkg.foundations.errors import UsageError
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.package.package_info import ComponentInfo, Constraints, VariantInfo
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.matching.explanation import selection_to_json
from ortpkg.selection.matching.provider_option_wishes import provider_options_by_ep
from ortpkg.selection.matching.reasons import asked_for
from ortpkg.selection.matching.request import make_request
from ortpkg.selection.matching.selector import select_ep_devices
from ortpkg.selection.matching.verdict import ReasonCode, Selection
from ortpkg.selection.matching.wishes import SelectionWishes
from tests.selection.conftest import _ROOT as ROOT

OPENVINO, QNN, CPU = "OpenVINOExecutionProvider", "QNNExecutionProvider", "CPUExecutionProvider"


def hardware(kind: str) -> HardwareDevice:
    return HardwareDevice(type=DeviceType(kind), name=kind)


MACHINE = (
    EpDevice(
        ep_name=OPENVINO,
        backend="openvino",
        device=hardware("gpu"),
        ep_options={"device_type": "GPU.0"},
    ),
    EpDevice(
        ep_name=OPENVINO,
        backend="openvino",
        device=hardware("gpu"),
        ep_options={"device_type": "GPU.1"},
    ),
    EpDevice(
        ep_name=OPENVINO,
        backend="openvino",
        device=hardware("npu"),
        ep_options={"device_type": "NPU"},
    ),
    EpDevice(ep_name=QNN, backend="onnxruntime", device=hardware("npu")),
    EpDevice(ep_name=CPU, backend="embedded", device=hardware("cpu")),
)


def select(*variants: VariantInfo, provider_options: Any, ep: str | None = None) -> Selection:
    component = ComponentInfo(name="m", directory=ROOT, variants=variants)
    request = make_request(
        component,
        MACHINE,
        SelectionWishes(ep=ep, provider_options=provider_options),
        hardware=[each.device for each in MACHINE if each.device is not None],
        compatibility=lambda _device, _info: CompiledModelCompatibility.NOT_APPLICABLE,
    )
    return select_ep_devices(component, request)


def variant(
    name: str, ep: str | None = None, device: str | None = None, **options: str
) -> VariantInfo:
    return VariantInfo(
        name=name,
        component_name="m",
        directory=ROOT,
        model_path=ROOT / "model.onnx",
        constraints=Constraints(ep=ep, device=device),
        provider_options=options,
    )


@pytest.mark.requirement("K09", "K12")
def test_an_option_of_the_caller_decides_between_the_variants_of_an_ep() -> None:
    gpu, npu = variant("gpu", OPENVINO, "gpu"), variant("npu", OPENVINO, "npu")

    usual = select(gpu, npu, provider_options=None)
    selection = select(gpu, npu, provider_options={"device_type": "GPU"})

    assert usual.best is not None
    assert usual.best.variant is npu
    assert selection.best is not None
    assert selection.best.variant is gpu
    (conflict,) = (
        each
        for each in selection.verdicts
        if each.variant is npu
        and each.ep_device is not None
        and each.ep_device.ep_options.get("device_type") == "NPU"
    )
    assert conflict.code is ReasonCode.PROVIDER_OPTION_DEVICE_CONFLICT
    assert (
        conflict.reason
        == "the provider option device_type='GPU' that was asked for does not allow this EP device,"
        " an NPU"
    )


@pytest.mark.requirement("K09")
@pytest.mark.parametrize("value", ["AUTO:NPU,CPU", "HETERO:NPU,CPU", "npu"])
def test_lists_of_devices_count_as_in_a_package(value: str) -> None:
    selection = select(
        variant("any", OPENVINO), provider_options={OPENVINO: {"device_type": value}}
    )
    assert selection.best is not None
    assert selection.best.ep_device is MACHINE[2]


def test_a_list_without_the_variants_device_rules_it_out() -> None:
    assert (
        select(
            variant("gpu", OPENVINO, "gpu"), provider_options={"device_type": "AUTO:NPU,CPU"}
        ).best
        is None
    )


def test_a_numbered_device_is_that_one() -> None:
    selection = select(variant("any", OPENVINO), provider_options={"device_type": "GPU.1"})
    assert selection.best is not None
    assert selection.best.ep_device is MACHINE[1]


@pytest.mark.requirement("K09")
@pytest.mark.parametrize(
    ("value", "eligible"),
    [
        ("AUTO:-NPU", {("gpu", "GPU.0"), ("gpu", "GPU.1"), ("any", "GPU.0"), ("any", "GPU.1")}),
        ("AUTO:-GPU", {("npu", "NPU"), ("any", "NPU")}),
        ("AUTO:GPU,-NPU", {("gpu", "GPU.0"), ("gpu", "GPU.1"), ("any", "GPU.0"), ("any", "GPU.1")}),
        ("AUTO:-GPU.1,-NPU", {("gpu", "GPU.0"), ("any", "GPU.0")}),
    ],
)
def test_nothing_runs_on_a_device_that_a_list_excludes(
    value: str, eligible: set[tuple[str, str]]
) -> None:
    variants = [variant(name, OPENVINO, name) for name in ("npu", "gpu", "cpu")]
    selection = select(*variants, variant("any", OPENVINO), provider_options={"device_type": value})

    found = {
        (each.variant.name, each.ep_device.ep_options["device_type"])
        for each in selection.verdicts
        if each.is_eligible and each.ep_device is not None
    }
    assert found == eligible


@pytest.mark.requirement("K09")
@pytest.mark.parametrize(
    ("value", "names"),
    [("XPU", "'XPU'"), ("AUTO:GPU,-xpu", "'XPU'"), ("OTHER:GPU", "'OTHER'"), ("-CPU", "'-CPU'")],
)
def test_a_device_that_openvino_does_not_know_is_told(value: str, names: str) -> None:
    with pytest.raises(
        UsageError, match=f"names {names}, which OpenVINO does not know; write CPU, GPU, NPU, "
    ):
        select(variant("any", OPENVINO), provider_options={"device_type": value})
    assert (
        select(variant("cpu", CPU), provider_options={"cpu": {"device_type": value}}).best
        is not None
    )


@pytest.mark.requirement("K09")
def test_options_of_one_ep_say_nothing_of_another() -> None:
    cpu, qnn = variant("cpu", CPU), variant("qnn", QNN)
    assert select(cpu, provider_options={"device_type": "NPU"}).best is not None
    assert select(qnn, provider_options={"backend_type": "htp"}).best is not None
    assert select(qnn, provider_options={"backend_type": "gpu"}).best is None


@pytest.mark.requirement("K09")
def test_the_callers_option_replaces_the_variants() -> None:
    mine = variant("mine", OPENVINO, device_type="GPU")
    selection = select(mine, provider_options={"openvino": {"device_type": "NPU"}})
    assert selection.best is not None
    assert selection.best.ep_device is MACHINE[2]


def test_what_was_asked_for_is_part_of_the_answer() -> None:
    selection = select(
        variant("cpu", CPU), provider_options={"openvino": {"device_type": "NPU", "num_streams": 2}}
    )
    assert selection_to_json(selection)["provider_options"] == {
        OPENVINO: {"device_type": "NPU", "num_streams": "2"}
    }
    asked = f"device_type=NPU of {OPENVINO}, num_streams=2 of {OPENVINO}"
    assert asked_for(selection) == f"policy default, {asked}"


@pytest.mark.parametrize(
    ("wished", "ep", "found"),
    [
        (None, None, {}),
        ({}, None, {}),
        ({"threads": 4}, CPU, {CPU: {"threads": "4"}}),
        (
            {"device_type": "NPU", "precision": "FP16"},
            None,
            {OPENVINO: {"device_type": "NPU", "precision": "FP16"}},
        ),
        ({"qnn": {"backend_type": "htp"}, CPU: {}}, None, {QNN: {"backend_type": "htp"}, CPU: {}}),
    ],
)
def test_whose_options_they_are(wished: Any, ep: str | None, found: dict[str, Any]) -> None:
    assert provider_options_by_ep(wished, ep=ep, named=()) == found


@pytest.mark.parametrize(
    ("wished", "message"),
    [
        ({"threads": 4}, "whose options are 'threads'"),
        ({"threads": 4, "cpu": {}}, "not both at once"),
        ({"opnvino": {"device_type": "NPU"}}, "did you mean 'OpenVINOExecutionProvider'"),
        ({"device_type": True}, "write a text or a number"),
        ({"device_type": None}, "write a text or a number"),
        ({"openvino": {3: "x"}}, "write a text or a number"),
        ({3: {"threads": 4}}, "an execution provider '3'; write its name"),
        (
            {"openvino": {"device_type": "NPU"}, OPENVINO: {"device_type": "CPU"}},
            f"name {OPENVINO} twice",
        ),
        (
            {"device_type": "NPU", "backend_type": "htp"},
            "whose options are 'device_type', 'backend_type'",
        ),
        ([("device_type", "NPU")], r"not \"\[\('device_type', 'NPU'\)\]\""),
    ],
)
def test_what_is_no_option_is_a_usage_error(wished: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        provider_options_by_ep(wished, ep=None, named=())
