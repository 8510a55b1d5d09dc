"""OrtHardwareDevice and OrtEpDevice: devices that EPs offer here, under onnxruntime's names.

They wrap :class:`~ortpkg.machine.hardware.HardwareDevice` and
:class:`~ortpkg.machine.hardware.EpDevice`, and have onnxruntime's numbers instead of ortpkg's
words. Imports neither numpy nor onnx.
"""

from __future__ import annotations

from collections.abc import Collection

from ortpkg.foundations.errors import UsageError
from ortpkg.machine.hardware import EpDevice, HardwareDevice
from ortpkg.runtime.providers.machine_offer import this_machine
from ortpkg.runtime.session.values.memory_info import OrtMemoryInfo
from ortpkg.runtime.session.values.onnxruntime_enums import (
    OrtDeviceMemoryType,
    OrtHardwareDeviceType,
)

#: The onnxruntime bridge's EP devices come after other backends' devices of the same EP, as they do
#: if a session names the EP.
_LAST_BACKEND = "onnxruntime"


class OrtHardwareDevice:
    """A CPU, GPU or NPU of the machine."""

    def __init__(self, hardware: HardwareDevice) -> None:
        self.hardware = hardware

    @property
    def type(self) -> OrtHardwareDeviceType:
        """Kind of device."""
        return OrtHardwareDeviceType[self.hardware.type.name]

    @property
    def vendor(self) -> str:
        """Name of the maker; "" if unknown."""
        return self.hardware.vendor

    @property
    def vendor_id(self) -> int:
        """PCI number of the vendor; 0 if unknown."""
        return self.hardware.vendor_id

    @property
    def device_id(self) -> int:
        """PCI number of the device model, the same for two of a kind; 0 if unknown."""
        return self.hardware.device_id

    @property
    def metadata(self) -> dict[str, str]:
        """Further facts that the system reports, as strings; a copy."""
        return dict(self.hardware.metadata)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OrtHardwareDevice) and self.hardware == other.hardware

    def __hash__(self) -> int:
        return hash((self.type, self.vendor_id, self.device_id, self.hardware.name))

    def __repr__(self) -> str:
        return f"OrtHardwareDevice({self.type.name}, {self.hardware.name!r})"


class OrtEpDevice:
    """A hardware device that an execution provider offers to use.

    Pass it to ``SessionOptions.add_provider_for_devices``.

    Attributes:
        ep_device: the device as selection and ``InferenceSession(ep_devices=...)`` use it.
    """

    def __init__(self, ep_device: EpDevice) -> None:
        """Wrap an EP device; it must have a hardware device."""
        assert ep_device.device is not None
        self.ep_device = ep_device
        self.device = OrtHardwareDevice(ep_device.device)

    @property
    def ep_name(self) -> str:
        """Name of the execution provider, such as "CPUExecutionProvider"."""
        return self.ep_device.ep_name

    @property
    def ep_vendor(self) -> str:
        """Maker of the execution provider."""
        return self.ep_device.ep_vendor

    @property
    def ep_metadata(self) -> dict[str, str]:
        """Version and backend of the execution provider, and its own metadata."""
        facts = {"version": self.ep_device.ep_version, "backend": self.ep_device.backend}
        return {**facts, **self.ep_device.ep_metadata}

    @property
    def ep_options(self) -> dict[str, str]:
        """Provider options that choose this device; a copy."""
        return dict(self.ep_device.ep_options)

    def memory_info(self, memory_type: OrtDeviceMemoryType) -> OrtMemoryInfo | None:  # noqa: ARG002 - none has any
        """Return None: feeds and outputs lie in host memory for every execution provider here."""
        return None

    def create_sync_stream(self) -> None:
        """Raise UsageError: no execution provider here has streams."""
        raise UsageError(f"{self.ep_name} has no streams: its values lie in the memory of the CPU")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OrtEpDevice) and self.ep_device == other.ep_device

    def __hash__(self) -> int:
        return hash((self.ep_name, self.ep_device.backend, self.device))

    def __repr__(self) -> str:
        return f"OrtEpDevice({self.ep_name}, {self.ep_device.backend}, {self.device!r})"


def as_ep_device(device: EpDevice | OrtEpDevice) -> EpDevice:
    """Return the EP device in either form as an :class:`~ortpkg.machine.hardware.EpDevice`."""
    return device.ep_device if isinstance(device, OrtEpDevice) else device


def offered_ep_devices(*, named: Collection[str] = ()) -> list[OrtEpDevice]:
    """Return the devices that execution providers offer, in default order, the CPU's last.

    If several backends offer the same EP on the same device, only the one that a session takes by
    name is returned. Execution providers that report no devices are left out.

    Args:
        named: EPs to ask in addition: plug-ins, which are asked only if they are named.
    """
    ep_devices = this_machine(named=named).ep_devices
    preferred = sorted(ep_devices, key=lambda candidate: candidate.backend == _LAST_BACKEND)
    chosen: list[EpDevice] = []
    for candidate in preferred:
        if candidate.device is not None and not any(
            (candidate.ep_name, candidate.device) == (other.ep_name, other.device)
            for other in chosen
        ):
            chosen.append(candidate)
    return [
        OrtEpDevice(ep_device)
        for ep_device in ep_devices
        if any(ep_device is selected for selected in chosen)
    ]
