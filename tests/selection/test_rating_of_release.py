"""A release's policy rates compatibility strings as onnxruntime's EP does, not ours."""

from __future__ import annotations

import pytest

from ortpkg.foundations.ep_names import OPENVINO_EP
from ortpkg.foundations.isolation.backend_probe import ProbeAnswer
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.machine import Machine
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.runtime.providers.machine_offer import MachineOffer
from ortpkg.runtime.providers.openvino_factory import OpenVinoEpFactory

REQUIRED = "meta=1.0;ov=2026.4.1;isa=Intel AVX2"
THEIRS = f'{{"ovep_compat_ver":"1.0","ovep_bin_ver":"1.1","ov_compat_string":"{REQUIRED}"}}'


@pytest.mark.parametrize(
    ("info", "here", "there"),
    [
        (
            "openvino;sdk={version};device=CPU;architecture=zen4",
            "EP_SUPPORTED_OPTIMAL",
            "EP_UNSUPPORTED",
        ),
        (THEIRS, "EP_SUPPORTED_OPTIMAL", "EP_SUPPORTED_OPTIMAL"),
        ("{{}}", "EP_NOT_APPLICABLE", "EP_NOT_APPLICABLE"),
    ],
    ids=["ours", "theirs", "empty"],
)
def test_onnxruntimes_openvino_calls_ortpkgs_strings_unsupported_and_ours_does_not(
    info: str, here: str, there: str
) -> None:
    factory = OpenVinoEpFactory(
        ask_requirements=lambda _device, _fingerprint: ProbeAnswer(value=REQUIRED)
    )
    cpu = HardwareDevice(type=DeviceType.CPU, architecture="zen4")
    offered = EpDevice(ep_name=OPENVINO_EP, device=cpu, backend=factory.backend)
    machine = Machine(os="linux", hardware=(cpu,))
    offer = MachineOffer(machine=machine, ep_devices=(offered,), factories=(factory,))
    text = info.format(version=factory.version) if info is not THEIRS else info
    if not factory.version:
        pytest.skip("needs the version of an installed openvino")
    assert offer.joint_compatibility([offered], text) is CompiledModelCompatibility(here)
    assert offer.rating_of_release([offered], text) is CompiledModelCompatibility(there)
