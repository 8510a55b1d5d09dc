"""What a machine offers: this one's factories, and the EP devices of a profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ortpkg.devices.hardware import HardwareDevice
from ortpkg.devices.profiles import read_profile
from ortpkg.isolation.backend_probe import ProbeAnswer
from ortpkg.providers import ep_registry, onnxruntime_factory
from ortpkg.providers.ep_factory import CompiledModelCompatibility
from ortpkg.providers.installed_distribution import InstalledDistribution
from ortpkg.providers.onnxruntime_factory import OnnxRuntimeEpFactory
from ortpkg.providers.openvino_factory import OpenVinoEpFactory
from ortpkg.selection.machine import offer_of_profile

_ONNXRUNTIME = (InstalledDistribution(name="onnxruntime-qnn", version="1.31.1"),)


class _Installed(OpenVinoEpFactory):
    """An OpenVINO that calls every string optimal."""

    version = "2026.4.1"

    def is_available(self) -> bool:
        return True

    def validate_compiled_model_compatibility_info(
        self, devices: Sequence[HardwareDevice], info: str
    ) -> CompiledModelCompatibility:
        return CompiledModelCompatibility.OPTIMAL


@pytest.fixture(autouse=True)
def only_this_openvino(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ep_registry.BUILT_IN_FACTORIES, "OpenVINOExecutionProvider", _Installed)
    monkeypatch.setattr(ep_registry, "list_ep_names", lambda _hardware: ("CPUExecutionProvider",))


def test_the_offer_of_a_profile_is_what_the_profile_says() -> None:
    profile = read_profile("snapdragon-x-laptop")

    offer = offer_of_profile(profile)

    assert offer.machine is profile.machine
    assert offer.ep_devices is profile.ep_devices
    assert offer.notes == ("the machine profile 'snapdragon-x-laptop' is constructed: nobody probed such a machine",)


@pytest.mark.requirement("K10")
def test_an_ep_that_is_not_installed_gives_compatibility_unknown() -> None:
    offer = offer_of_profile(read_profile("snapdragon-x-laptop"))

    assert offer.compatibility(offer.ep_devices[0], "soc60") is CompiledModelCompatibility.UNKNOWN


@pytest.mark.requirement("K10")
def test_an_installed_ep_rates_a_profiles_string_only_in_the_same_version() -> None:
    same = read_profile("intel-core-ultra-laptop")
    older = replace(same, ep_devices=tuple(replace(each, ep_version="2025.1.0") for each in same.ep_devices))
    unsaid = replace(same, ep_devices=tuple(replace(each, ep_version="") for each in same.ep_devices))

    rated = [offer_of_profile(each).compatibility(each.ep_devices[2], "x") for each in (same, older, unsaid)]

    assert rated == [
        CompiledModelCompatibility.OPTIMAL,
        CompiledModelCompatibility.UNKNOWN,
        CompiledModelCompatibility.UNKNOWN,
    ]


@pytest.mark.requirement("K10")
def test_onnxruntime_rates_a_profiles_string_for_a_device_that_it_has_here_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    profile = read_profile("snapdragon-x-laptop")
    npu = profile.ep_devices[0].device
    assert npu is not None
    offers = {
        "providers": ["QNNExecutionProvider"],
        "ep_devices": [
            {
                "ep_name": "QNNExecutionProvider",
                "type": "npu",
                "vendor_id": npu.vendor_id,
                "device_id": npu.device_id,
            }
        ],
    }
    monkeypatch.setattr(ep_registry, "list_ep_names", lambda _hardware: ("QNNExecutionProvider",))
    monkeypatch.setattr(onnxruntime_factory, "installed_distributions", lambda: _ONNXRUNTIME)
    monkeypatch.setattr(
        ep_registry,
        "OnnxRuntimeEpFactory",
        lambda name: OnnxRuntimeEpFactory(
            name, lambda _: ProbeAnswer(value=offers), lambda *_: ProbeAnswer(value="EP_UNSUPPORTED")
        ),
    )

    offer = offer_of_profile(profile)

    assert offer.compatibility(offer.ep_devices[0], "soc60") is CompiledModelCompatibility.UNSUPPORTED
    assert offer.compatibility(offer.ep_devices[1], "soc60") is CompiledModelCompatibility.UNKNOWN


def test_the_embedded_cpu_provider_is_the_same_everywhere() -> None:
    offer = offer_of_profile(read_profile("plain-server"))

    assert offer.compatibility(offer.ep_devices[-1], "x") is CompiledModelCompatibility.NOT_APPLICABLE
