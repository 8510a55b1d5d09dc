"""OrtHardwareDevice and OrtEpDevice: what EPs offer on this machine, under onnxruntime's names.

They stand for :class:`~ortpkg.devices.hardware.HardwareDevice` and
:class:`~ortpkg.devices.hardware.EpDevice`, and have onnxruntime's numbers where ours have words.
Imports neither numpy nor onnx.
"""

from __future__ import annotations

from collections.abc import Collection

from ortpkg.devices.hardware import EpDevice, HardwareDevice
from ortpkg.errors import UsageError
from ortpkg.providers.machine_offer import this_machine
from ortpkg.session.memory_info import OrtMemoryInfo
from ortpkg.session.onnxruntime_enums import OrtDeviceMemoryType, OrtHardwareDeviceType

#: The bridge's EP devices stand behind those of backends of the same EP, as they do where a session
#: names the EP.
_LAST_BACKEND = "onnxruntime"


class OrtHardwareDevice:
    """A CPU, GPU or NPU of the machine."""

    def __init__(self, hardware: HardwareDevice) -> None:
        self.hardware = hardware

    @property
    def type(self) -> OrtHardwareDeviceType:
        """CPU, GPU or NPU."""
        return OrtHardwareDeviceType[self.hardware.type.name]

    @property
    def vendor(self) -> str:
        """Who made it; "" where unknown."""
        return self.hardware.vendor

    @property
    def vendor_id(self) -> int:
        """PCI number; 0 where unknown."""
        return self.hardware.vendor_id

    @property
    def device_id(self) -> int:
        """PCI number of the model of device, the same for two of a kind; 0 where unknown."""
        return self.hardware.device_id

    @property
    def metadata(self) -> dict[str, str]:
        """What the system says of it besides, as texts; a copy."""
        return dict(self.hardware.metadata)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OrtHardwareDevice) and self.hardware == other.hardware

    def __hash__(self) -> int:
        return hash((self.type, self.vendor_id, self.device_id, self.hardware.name))

    def __repr__(self) -> str:
        return f"OrtHardwareDevice({self.type.name}, {self.hardware.name!r})"


class OrtEpDevice:
    """An execution provider's offer to use one hardware device.

    What a session takes (``add_provider_for_devices``).

    Attributes:
        ep_device: the same as selection and ``InferenceSession(ep_devices=...)`` have it.
    """

    def __init__(self, ep_device: EpDevice) -> None:
        """``ep_device``: one with a device."""
        assert ep_device.device is not None
        self.ep_device = ep_device
        self.device = OrtHardwareDevice(ep_device.device)

    @property
    def ep_name(self) -> str:
        """The execution provider's name, such as "CPUExecutionProvider"."""
        return self.ep_device.ep_name

    @property
    def ep_vendor(self) -> str:
        """Who made the execution provider."""
        return self.ep_device.ep_vendor

    @property
    def ep_metadata(self) -> dict[str, str]:
        """Version and backend of the execution provider, and what it says of itself."""
        own = {"version": self.ep_device.ep_version, "backend": self.ep_device.backend}
        return {**own, **self.ep_device.ep_metadata}

    @property
    def ep_options(self) -> dict[str, str]:
        """Provider options that mean this device; a copy."""
        return dict(self.ep_device.ep_options)

    def memory_info(self, memory_type: OrtDeviceMemoryType) -> OrtMemoryInfo | None:  # noqa: ARG002 - none has any
        """None: feeds and outputs lie in the host's memory for every execution provider here."""
        return None

    def create_sync_stream(self) -> None:
        """Raises UsageError: no execution provider here has streams."""
        raise UsageError(f"{self.ep_name} has no streams: its values lie in the memory of the CPU")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OrtEpDevice) and self.ep_device == other.ep_device

    def __hash__(self) -> int:
        return hash((self.ep_name, self.ep_device.backend, self.device))

    def __repr__(self) -> str:
        return f"OrtEpDevice({self.ep_name}, {self.ep_device.backend}, {self.device!r})"


def as_ep_device(device: EpDevice | OrtEpDevice) -> EpDevice:
    """The EP device itself, whichever form a caller has it in."""
    return device.ep_device if isinstance(device, OrtEpDevice) else device


def offered_ep_devices(*, named: Collection[str] = ()) -> list[OrtEpDevice]:
    """What every available execution provider offers here, in default order, the CPU's last.

    Where several backends have one EP on one device, the one that a session takes by its name.
    Execution providers that report no devices are not among them.

    Args:
        named: EPs to ask besides those of the machine: plug-ins, which are asked only where
            somebody names them.
    """
    found = this_machine(named=named).ep_devices
    preferred = sorted(found, key=lambda each: each.backend == _LAST_BACKEND)
    kept: list[EpDevice] = []
    for each in preferred:
        if each.device is not None and not any(
            (each.ep_name, each.device) == (other.ep_name, other.device) for other in kept
        ):
            kept.append(each)
    return [OrtEpDevice(each) for each in found if any(each is one for one in kept)]
