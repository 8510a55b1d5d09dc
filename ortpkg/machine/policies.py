"""Policies: orders of preference of device kinds, or by measured times.

The names are ONNX Runtime's (``OrtExecutionProviderDevicePolicy``), spelt as on a command line;
unlike there, each policy is a full order. ``docs/selection.md`` has the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.foundations.onnxruntime_releases import (
    ONNXRUNTIME_1_27,
    ONNXRUNTIME_1_31,
    ONNXRUNTIME_1_32,
)
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.implied_device_types import IMPLIED_DEVICE_TYPES


class DeviceKind(StrEnum):
    """Kinds of devices that policies distinguish.

    UNKNOWN: the EP reports no devices and its name implies none; it comes last.
    """

    DISCRETE_GPU = "discrete GPU"
    INTEGRATED_GPU = "integrated GPU"
    NPU = "NPU"
    CPU = "CPU"
    UNKNOWN = "unknown device"


class Policy(NamedTuple):
    """A named order of device kinds, best first; kinds that are not listed come after, as equals.

    Attributes:
        name: name of the policy.
        device_order: the device kinds, best first.
        description: a few words for people.
        uses_measurements: True if measurements of this machine come before the order.
    """

    name: str
    device_order: tuple[DeviceKind, ...]
    description: str
    uses_measurements: bool = False

    def preference(self, kind: DeviceKind) -> int:
        """Return the position of a kind in the order; 0 for the most preferred."""
        return (
            self.device_order.index(kind) if kind in self.device_order else len(self.device_order)
        )


_DGPU, _IGPU, _NPU, _CPU = (
    DeviceKind.DISCRETE_GPU,
    DeviceKind.INTEGRATED_GPU,
    DeviceKind.NPU,
    DeviceKind.CPU,
)

_POLICIES = (
    Policy(
        name="default",
        device_order=(_DGPU, _NPU, _IGPU, _CPU),
        description="fastest kind of device first",
    ),
    Policy(
        name="max-performance",
        device_order=(_DGPU, _NPU, _IGPU, _CPU),
        description="the same as default",
    ),
    Policy(
        name="prefer-npu",
        device_order=(_NPU, _IGPU, _DGPU, _CPU),
        description="an NPU if there is one",
    ),
    Policy(
        name="max-efficiency",
        device_order=(_NPU, _IGPU, _DGPU, _CPU),
        description="most results per joule first",
    ),
    Policy(
        name="min-overall-power",
        device_order=(_NPU, _IGPU, _CPU, _DGPU),
        description="a discrete GPU stays asleep",
    ),
    Policy(
        name="prefer-gpu",
        device_order=(_DGPU, _IGPU, _NPU, _CPU),
        description="a GPU of any kind first",
    ),
    Policy(name="prefer-cpu", device_order=(_CPU, _DGPU, _NPU, _IGPU), description="the CPU first"),
    Policy(
        name="measured",
        device_order=(_DGPU, _NPU, _IGPU, _CPU),
        description=(
            "what `ortpkg bench` found fastest on this machine; what was not measured as default"
        ),
        uses_measurements=True,
    ),
)
POLICIES: dict[str, Policy] = {policy.name: policy for policy in _POLICIES}

#: Policies that follow the rules of a release of onnxruntime (``release_selector``).
RELEASE_POLICIES: tuple[str, ...] = (
    ONNXRUNTIME_1_27,
    ONNXRUNTIME_1_31,
    ONNXRUNTIME_1_32,
)


def policy_named(name: str) -> str:
    """Return the policy's name as it is written in the tables.

    "-" and "_" are the same, and case does not matter.

    Raises:
        UsageError: an unknown name; the message lists the policies.
    """
    normal = name.lower().replace("_", "-")
    names = (*POLICIES, *RELEASE_POLICIES)
    if normal in names:
        return normal
    hint = did_you_mean(normal, names)
    raise UsageError(f"there is no policy {quoted(name)}{hint} (policies: {', '.join(names)})")


def find_policy(name: str) -> Policy:
    """Return the policy with this name, read as :func:`policy_named` reads it.

    Raises:
        UsageError: an unknown name, or that of a release's rules.
    """
    normal = policy_named(name)
    if normal in RELEASE_POLICIES:
        raise UsageError(
            f"policy {normal} is no order of devices: it is followed by select_as_release"
        )
    return POLICIES[normal]


def device_kind(ep_device: EpDevice, hardware: Sequence[HardwareDevice] = ()) -> DeviceKind:
    """Return the kind of device that ``ep_device`` counts as.

    A GPU that does not report whether it is discrete counts as integrated. If the EP reports no
    devices, its name decides: a GPU EP stands for the best GPU of ``hardware``.
    """
    if ep_device.device is not None:
        return _kind_of(ep_device.device.type, is_discrete=bool(ep_device.device.is_discrete))
    implied = IMPLIED_DEVICE_TYPES.get(ep_device.ep_name)
    if implied is None:
        return DeviceKind.UNKNOWN
    return _kind_of(implied, is_discrete=any(device.is_discrete for device in hardware))


def _kind_of(device_type: DeviceType, *, is_discrete: bool) -> DeviceKind:
    if device_type is DeviceType.GPU:
        return DeviceKind.DISCRETE_GPU if is_discrete else DeviceKind.INTEGRATED_GPU
    return DeviceKind.NPU if device_type is DeviceType.NPU else DeviceKind.CPU
