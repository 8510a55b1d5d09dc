"""What ortpkg says a release selects, on the machine of a stock onnxruntime: CPU and Azure."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.package.package_info import ComponentInfo
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.matching.verdict import Selection
from ortpkg.selection.releases.release_selector import select_as_release
from tests.interop.packages import AZURE, CPU
from tests.interop.protocol import Eps

_HARDWARE = HardwareDevice(type=DeviceType.CPU, name="cpu")
_OFFERS = (
    EpDevice(ep_name=CPU, device=_HARDWARE, backend="onnxruntime"),
    EpDevice(ep_name=AZURE, device=None, backend="onnxruntime"),
)


def eps_of(eps: Eps) -> list[str]:
    """The execution providers that an application's options come to there.

    Every policy comes to the CPU.
    """
    if eps.appended or eps.devices_of:
        return [*eps.appended, *eps.devices_of]
    return [] if eps.policy is None else [CPU]


def select_here(component: ComponentInfo, policy: str, eps: Eps) -> Selection:
    """What the release of ``policy`` selects."""
    return select_as_release(
        component,
        _OFFERS,
        policy=policy,
        hardware=(_HARDWARE,),
        compatibility=_rate,
        eps=eps_of(eps),
    )


def _rate(_ep_devices: Sequence[EpDevice], _info: str) -> CompiledModelCompatibility:
    """No EP of a stock wheel rates anything."""
    return CompiledModelCompatibility.NOT_APPLICABLE
