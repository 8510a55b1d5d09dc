"""A device that vanishes between selection and session: an error, never the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ortpkg
from ortpkg.foundations.errors import ExecutionProviderError, NoSuitableVariantError
from ortpkg.foundations.isolation.backend_probe import ProbeAnswer
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.machine import Machine
from ortpkg.runtime.providers import machine_offer as selection_machine
from ortpkg.runtime.providers.onnxruntime_factory import OnnxRuntimeEpFactory
from ortpkg.runtime.providers.openvino_factory import OpenVinoEpFactory
from ortpkg.runtime.session import named_providers

pytestmark = pytest.mark.usefixtures("warm_processes")

_DIGITS = Path(__file__).resolve().parents[2] / "sample_packages" / "digits.ortpackage"
_NPU = HardwareDevice(type=DeviceType.NPU, name="Intel AI Boost", vendor="Intel", vendor_id=0x8086)
_CPU = HardwareDevice(type=DeviceType.CPU, name="CPU")
_OFFER = EpDevice(
    ep_name="OpenVINOExecutionProvider",
    device=_NPU,
    backend="openvino",
    ep_options={"device_type": "NPU"},
)


@pytest.fixture
def on_npu(monkeypatch: pytest.MonkeyPatch) -> ortpkg.ModelVariant:
    """What is selected while the NPU is there; afterwards it is not."""
    pytest.importorskip("openvino")
    with monkeypatch.context() as while_it_is_there:
        while_it_is_there.setattr(
            selection_machine, "probe", lambda: Machine(os="linux", hardware=(_CPU, _NPU))
        )
        while_it_is_there.setattr(
            OpenVinoEpFactory, "get_supported_devices", lambda _self, _hardware: [_OFFER]
        )
        variant = ortpkg.ModelPackage(_DIGITS).best_variant(ep="openvino", device="npu")
    assert variant.verdict().ep_device == _OFFER
    return variant


def test_a_session_on_a_device_that_is_gone_is_an_error_that_names_it(
    on_npu: ortpkg.ModelVariant,
) -> None:
    with pytest.raises(
        ExecutionProviderError,
        match=r"^device gone: NPU \(Intel AI Boost\), which selection chose for",
    ):
        on_npu.create_session()


@pytest.mark.parametrize("allowed", ["0", "1"])
def test_the_cpu_stands_in_only_where_the_caller_says_so(
    on_npu: ortpkg.ModelVariant, allowed: str
) -> None:
    options = ortpkg.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", allowed)

    if allowed == "1":
        with pytest.raises(ExecutionProviderError, match="device gone"):
            on_npu.create_session(options)
        return
    session = on_npu.create_session(options)

    assert session.get_providers() == ["CPUExecutionProvider"]
    assert [entry.ep_name for entry in session.get_placement().entries] == ["CPUExecutionProvider"]


def test_a_package_cannot_allow_it() -> None:
    assert not named_providers.options_allow_fallback(None)
    assert not named_providers.options_allow_fallback(ortpkg.SessionOptions())


def test_what_the_installed_onnxruntime_lacks_is_told_without_what_other_backends_can(
    on_npu: ortpkg.ModelVariant,
) -> None:
    with pytest.raises(NoSuitableVariantError) as caught:
        on_npu.onnxruntime_args()

    assert "create_session() runs it on openvino" in str(caught.value)
    assert "SELECTED" not in str(caught.value)
    assert "it is the best" not in str(caught.value)


def _answering(value: Any) -> Any:
    return lambda *_: ProbeAnswer(value=value)


@pytest.mark.parametrize(
    ("ids", "is_there"), [(["CPU", "NPU"], True), (["CPU"], False), (["CPU", "GPU"], False)]
)
def test_openvino_is_asked_whether_the_device_is_still_there(
    ids: Sequence[str], is_there: bool
) -> None:
    factory = OpenVinoEpFactory(ask=_answering([{"id": each} for each in ids]))

    assert factory.has_device(_OFFER, (_CPU,)) is is_there


@pytest.mark.parametrize(("kind", "is_there"), [("gpu", True), ("npu", False)])
def test_onnxruntime_is_asked_whether_the_device_is_still_there(kind: str, is_there: bool) -> None:
    gpu = HardwareDevice(type=DeviceType.GPU, name="GPU")
    offer = replace(
        _OFFER, ep_name="XExecutionProvider", device=gpu, backend="onnxruntime", ep_options={}
    )
    answer = {
        "providers": ["XExecutionProvider"],
        "ep_devices": [{"ep_name": "XExecutionProvider", "type": kind}],
    }

    assert (
        OnnxRuntimeEpFactory("XExecutionProvider", ask=_answering(answer)).has_device(offer, ())
        is is_there
    )


def test_a_library_that_fails_to_tell_raises() -> None:
    factory = OpenVinoEpFactory(ask=lambda _fingerprint: ProbeAnswer(failure="it crashed"))

    with pytest.raises(ExecutionProviderError, match="it crashed"):
        factory.has_device(_OFFER, ())
