"""Arguments for an application's onnxruntime.InferenceSession; the real one where possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ortpkg
from ortpkg.foundations.errors import (
    DigestMismatchError,
    ExecutionProviderError,
    InvalidSessionOptionError,
    NoSuitableVariantError,
    TrustRequiredError,
)
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.runtime.providers import onnxruntime_args
from ortpkg.runtime.providers.onnxruntime_args import make_onnxruntime_args

onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("warm_processes")

Make = Callable[..., ortpkg.ModelPackage]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """make(ep=..., session_options=..., provider_options=...): a package of one variant, y = -x."""

    def build(*, trust: bool = False, **facts: Any) -> ortpkg.ModelPackage:
        model = tmp_path / "model.onnx"
        text = (
            '<ir_version: 8, opset_import: ["" : 17]> m (float[N] x) => (float[N] y) { y = Neg(x) }'
        )
        onnx.save(onnx.parser.parse_model(text), model)
        root = tmp_path / "p.ortpackage"
        ortpkg.create(root, [ortpkg.NewVariant(model=model, name="only", **facts)])
        return ortpkg.ModelPackage(root, trust=trust)

    return build


def _variant(package: ortpkg.ModelPackage) -> ortpkg.ModelVariant:
    return package.best_variant()


def _runs(arguments: Mapping[str, Any]) -> list[str]:
    session = onnxruntime.InferenceSession(**arguments)
    np.testing.assert_array_equal(
        session.run(None, {"x": np.array([1.0], dtype=np.float32)})[0], [-1.0]
    )
    providers: list[str] = session.get_providers()
    return providers


def test_a_real_session_is_made_of_the_arguments(make: Make) -> None:
    arguments = _variant(make(ep="cpu")).onnxruntime_args()

    assert _runs(arguments) == ["CPUExecutionProvider"]
    assert Path(arguments["path_or_bytes"]).is_file()
    assert (arguments["providers"], arguments["provider_options"]) == (
        ["CPUExecutionProvider"],
        [{}],
    )


def test_the_options_of_the_package_reach_the_session(make: Make) -> None:
    session_options = {
        "session.intra_op_num_threads": "3",
        "session.execution_mode": "parallel",
        "session.graph_optimization_level": "disable_all",
        "session.enable_mem_pattern": "false",
        "session.log_id": "mine",
        "session.set_denormal_as_zero": "1",
    }
    package = make(
        ep="cpu",
        session_options=session_options,
        provider_options={"arena_extend_strategy": "kSameAsRequested"},
    )

    arguments = _variant(package).onnxruntime_args()

    options = arguments["sess_options"]
    assert options.intra_op_num_threads == 3
    assert options.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
    assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert (options.enable_mem_pattern, options.logid) == (False, "mine")
    assert options.get_session_config_entry("session.set_denormal_as_zero") == "1"
    assert arguments["provider_options"] == [{"arena_extend_strategy": "kSameAsRequested"}]
    assert _runs(arguments) == ["CPUExecutionProvider"]


def test_the_applications_own_session_options_replace_the_packages(make: Make) -> None:
    own = onnxruntime.SessionOptions()
    own.intra_op_num_threads = 1

    arguments = _variant(
        make(ep="cpu", session_options={"session.intra_op_num_threads": "3"})
    ).onnxruntime_args(own)

    assert arguments["sess_options"] is own
    assert own.intra_op_num_threads == 1
    assert _runs(arguments) == ["CPUExecutionProvider"]


def test_an_ep_that_onnxruntime_has_without_devices_is_named_before_the_cpu(make: Make) -> None:
    if "AzureExecutionProvider" not in onnxruntime.get_available_providers():
        pytest.skip("this build of onnxruntime has no EP without devices")

    arguments = _variant(make(ep="AzureExecutionProvider")).onnxruntime_args()

    assert arguments["providers"] == ["AzureExecutionProvider", "CPUExecutionProvider"]
    assert _runs(arguments) == ["AzureExecutionProvider", "CPUExecutionProvider"]


def test_a_variant_that_only_another_backend_runs_says_which(make: Make) -> None:
    pytest.importorskip("openvino")
    if "OpenVINOExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this build of onnxruntime has the provider")
    variant = _variant(make(ep="openvino"))

    with pytest.raises(NoSuitableVariantError) as caught:
        variant.onnxruntime_args()

    first = str(caught.value).splitlines()[0]
    assert (
        first == "the onnxruntime that is installed here cannot run variant 'only'"
        " (OpenVINOExecutionProvider); create_session() runs it on openvino"
    )


def test_options_that_reach_beyond_the_package_need_trust(make: Make) -> None:
    package = make(ep="cpu", session_options={"session.custom_key": "/etc"})

    with pytest.raises(TrustRequiredError, match=r"session\.custom_key"):
        _variant(package).onnxruntime_args()
    trusted = ortpkg.ModelPackage(package.root, trust=True).best_variant().onnxruntime_args()
    assert trusted["sess_options"].get_session_config_entry("session.custom_key") == "/etc"


def test_a_value_that_onnxruntime_does_not_take_names_its_key(make: Make) -> None:
    with pytest.raises(
        InvalidSessionOptionError, match=r"'session.intra_op_num_threads' has the value 'many'"
    ):
        _variant(
            make(ep="cpu", session_options={"session.intra_op_num_threads": "many"})
        ).onnxruntime_args()


def test_what_it_loads_is_verified_first(make: Make) -> None:
    variant = _variant(make(ep="cpu"))
    assert variant.model_path is not None
    variant.model_path.write_bytes(variant.model_path.read_bytes() + b"\0")

    with pytest.raises(DigestMismatchError):
        variant.onnxruntime_args()
    assert variant.onnxruntime_args(verify=False)["path_or_bytes"] == str(variant.model_path)


# --- EPs with devices, which no stock build has: onnxruntime's own words, constructed -------------


class _Options:
    """The part of onnxruntime.SessionOptions that takes EP devices."""

    def __init__(self) -> None:
        self.added: list[tuple[list[Any], dict[str, str]]] = []

    def add_provider_for_devices(self, devices: list[Any], options: dict[str, str]) -> None:
        self.added.append((devices, options))


def _offered(kind: str, device_id: int, **metadata: str) -> Any:
    device = SimpleNamespace(
        type=SimpleNamespace(name=kind),
        vendor_id=0x8086,
        device_id=device_id,
        metadata=metadata,
        vendor="Intel",
    )
    return SimpleNamespace(ep_name="OpenVINOExecutionProvider", device=device, ep_options={})


def _chosen(device_type: DeviceType, device_id: int, **metadata: str) -> EpDevice:
    device = HardwareDevice(
        type=device_type,
        name="Arc",
        vendor_id=0x8086,
        device_id=device_id,
        metadata=metadata,
        source="sysfs",
    )
    return EpDevice(ep_name="OpenVINOExecutionProvider", device=device, backend="onnxruntime")


def _arguments(
    monkeypatch: pytest.MonkeyPatch, offered: list[Any], chosen: EpDevice
) -> tuple[Any, _Options]:
    monkeypatch.setattr(onnxruntime, "get_ep_devices", lambda: offered)
    options = _Options()
    arguments = make_onnxruntime_args(
        "m.onnx",
        chosen,
        session_options={},
        provider_options={"precision": "FP16"},
        sess_options=options,
    )
    return arguments, options


def test_the_device_that_was_selected_is_handed_over_with_its_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    npu, first, second = _offered("NPU", 0x7D1D), _offered("GPU", 0x56A0), _offered("GPU", 0x7D55)

    arguments, options = _arguments(
        monkeypatch, [npu, first, second], _chosen(DeviceType.GPU, 0x7D55)
    )

    assert options.added == [([second], {"precision": "FP16"})]
    assert (arguments["providers"], arguments["provider_options"]) == (None, None)


def test_of_two_equal_cards_the_address_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [
        _offered("GPU", 0x56A0, pci_bus_id=address) for address in ("0000:03:00.0", "0000:83:00.0")
    ]
    chosen = _chosen(DeviceType.GPU, 0x56A0, pci_address="0000:83:00.0")

    _, options = _arguments(monkeypatch, cards, chosen)

    assert options.added[0][0] == [cards[1]]


@pytest.mark.parametrize("offered", [[], [_offered("GPU", 0x7D55)]])
def test_a_device_that_vanished_since_selection_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, offered: list[Any]
) -> None:
    with pytest.raises(ExecutionProviderError) as caught:
        _arguments(monkeypatch, offered, _chosen(DeviceType.NPU, 0x7D1D))

    assert (
        str(caught.value)
        == "the device 'Arc' that selection chose for OpenVINOExecutionProvider is not there any"
        f" more: onnxruntime now reports {len(offered)} device(s) for it; select again"
    )


def test_a_provider_that_vanished_since_selection_is_a_reason() -> None:
    chosen = EpDevice(ep_name="CUDAExecutionProvider", device=None, backend="onnxruntime")
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this build of onnxruntime has the provider")

    with pytest.raises(
        ExecutionProviderError, match="has no 'CUDAExecutionProvider' any more; it has: "
    ):
        make_onnxruntime_args("m.onnx", chosen, session_options={}, provider_options={})


def test_a_device_of_cuda_which_onnxruntime_does_not_list_goes_by_its_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuda = "CUDAExecutionProvider"
    chosen = replace(_chosen(DeviceType.GPU, 0x2330), ep_name=cuda, ep_options={"device_id": "1"})
    prepared: list[Any] = []
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: [cuda, "CPUExecutionProvider"]
    )
    monkeypatch.setattr(onnxruntime_args, "prepare_nvidia_libraries", prepared.append)

    arguments, options = _arguments(monkeypatch, [], chosen)

    assert arguments["providers"] == [cuda, "CPUExecutionProvider"]
    assert arguments["provider_options"] == [{"device_id": "1", "precision": "FP16"}, {}]
    assert (options.added, prepared) == ([], [onnxruntime])
