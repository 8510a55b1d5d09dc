"""Target of a session on an EP's library: onnxruntime's EP devices and their facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ortpkg.foundations.documents.load_config import EXACT_CONFIG, LOAD_CONFIG
from ortpkg.foundations.ep_names import OPENVINO_EP
from ortpkg.foundations.errors import ExecutionProviderError
from ortpkg.machine.architecture import host_architecture
from ortpkg.machine.hardware import DeviceType, EpDevice
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.runtime.providers.ep_discovery.ep_libraries import (
    NO_DEVICE,
    EpLibrary,
    emulation_note,
    is_emulation_asked_for,
)
from ortpkg.runtime.providers.ep_discovery.ep_package import import_ep_package
from ortpkg.runtime.providers.ep_discovery.registered_ep_library import (
    load_quietly,
    register_ep_library,
    registered_devices,
)
from ortpkg.runtime.providers.foreign_code import foreign_code

_UNKNOWN_ARCHITECTURE = "unknown"
_FLOAT32 = "FP32"
_NO_SUCH_DEVICE = "offers no such device on this machine"
#: Metadata key of a device's address in onnxruntime; this machine's probe has "pci_address".
_PCI = "pci_bus_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpLibraryTarget:
    """Devices of one library in one session.

    Attributes:
        library: the library.
        ep_devices: onnxruntime's EP devices.
        options: provider options without which the library would run on something else.
        device: device that is compiled for, in our words.
        architecture: architecture of that device.
    """

    library: EpLibrary
    ep_devices: tuple[Any, ...]
    options: Mapping[str, str]
    device: str
    architecture: str

    def describe(self, options: Mapping[str, str]) -> ContextDescriptor:
        """Return what contexts depend on that are made for it with these provider options."""
        return ContextDescriptor(
            ep=self.library.ep_name,
            sdk_version=self.library.build,
            device=self.device,
            architecture=self.architecture,
            options=MappingProxyType(dict(options)),
        )


def precision_options(ep_name: str, options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options to add so that the EP computes in float32, as our own backends do.

    OpenVINO's computes in bfloat16 on CPUs that have it (errors of 1e-2), whatever its option
    ``precision`` says.
    """
    is_stated = LOAD_CONFIG in options or options.get("precision", _FLOAT32).upper() != _FLOAT32
    return {} if ep_name != OPENVINO_EP or is_stated else {LOAD_CONFIG: EXACT_CONFIG}


def is_registered_library(onnxruntime: Any, library: EpLibrary) -> bool:
    """Return True if the library is registered, by us or by the program."""
    return bool(registered_devices(onnxruntime, library.path))


def ep_library_target(
    onnxruntime: Any, library: EpLibrary, wanted: Sequence[EpDevice]
) -> EpLibraryTarget:
    """Return the devices of ``library`` that ``wanted`` are; its first device if that is empty.

    Raises:
        ExecutionProviderError: the library cannot be registered, offers nothing, or would only
            emulate a device that nobody asked for.
    """
    for_absent = any(
        ep_device.device is not None and ep_device.device.is_absent for ep_device in wanted
    )
    emulation = None if for_absent else library.emulation
    if emulation is not None and not is_emulation_asked_for(library.ep_name):
        raise ExecutionProviderError(emulation_note(library, emulation), ep_name=library.ep_name)
    offered = _registered(onnxruntime, library, allows_absent=for_absent)
    devices = _chosen_devices(offered, wanted) if wanted else list(offered[:1])
    if not devices:
        raise ExecutionProviderError(
            f"{library.ep_name} ({library}) {_NO_SUCH_DEVICE if offered else NO_DEVICE}",
            ep_name=library.ep_name,
        )
    if emulation is not None:
        load_quietly(library.file_beside(emulation.library))
        return EpLibraryTarget(
            library=library,
            ep_devices=tuple(devices[:1]),
            options=dict(emulation.options),
            device=f"{emulation.type.upper()} ({emulation.name})",
            architecture=emulation.architecture,
        )
    first = next((device.device for device in wanted if device.device is not None), None)
    kind = devices[0].device.type.name
    is_cpu = kind == DeviceType.CPU.upper()
    name = "" if first is None or is_cpu or not first.name else f" ({first.name})"
    architecture = (
        host_architecture() if is_cpu else (first and first.architecture) or _UNKNOWN_ARCHITECTURE
    )
    return EpLibraryTarget(
        library=library,
        ep_devices=tuple(devices),
        options=dict(wanted[0].ep_options) if wanted else {},
        device=f"{kind}{name}",
        architecture=architecture,
    )


def _registered(onnxruntime: Any, library: EpLibrary, *, allows_absent: bool) -> tuple[Any, ...]:
    """Import the library's package, then register the library in this process."""
    if library.package is not None:
        with foreign_code(library.ep_name, "prepare its library"):
            import_ep_package(*library.package)
    return register_ep_library(
        onnxruntime, library.ep_name, library.path, library.siblings, allows_absent=allows_absent
    )


def _chosen_devices(offered: Sequence[Any], wanted: Sequence[EpDevice]) -> list[Any]:
    """Return onnxruntime's EP devices for the wanted devices that it has, in its order."""
    free = list(range(len(offered)))
    positions = []
    for device in wanted:
        alike = [position for position in free if _is_same(offered[position], device)]
        if alike:
            positions.append(
                next(
                    (
                        position
                        for position in alike
                        if _has_same_address(offered[position], device)
                    ),
                    alike[0],
                )
            )
            free.remove(positions[-1])
    return [offered[position] for position in sorted(positions)]


def _is_same(offered: Any, device: EpDevice) -> bool:
    """Return True if onnxruntime's EP device may be that one, by kind and by the EP's metadata."""
    metadata = dict(device.ep_metadata)
    return all(
        metadata.get(key, value) == value for key, value in offered.ep_metadata.items()
    ) and (
        device.device is None
        or "emulated" in metadata
        or (
            offered.device.type.name.lower() == device.device.type.value
            and (not device.device.is_absent or offered.device.device_id == device.device.device_id)
        )
    )


def _has_same_address(offered: Any, device: EpDevice) -> bool:
    """Return True if both devices are known to have the same PCI address."""
    address = dict(offered.device.metadata).get(_PCI)
    return (
        bool(address)
        and device.device is not None
        and device.device.metadata.get("pci_address") == address
    )
