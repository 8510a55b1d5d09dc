"""Hardware devices, and execution providers' offers to use them.

These are frozen values; nothing here asks a device or reads a file. The terms are ONNX Runtime's:
an OrtHardwareDevice is a piece of hardware, an OrtEpDevice is an execution provider's offer to use
one (``onnxruntime_c_api.h``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ortpkg.foundations.errors import unquoted


class DeviceType(StrEnum):
    """OrtHardwareDeviceType, in the lower-case form that packages use in ``constraints.device``."""

    CPU = "cpu"
    GPU = "gpu"
    NPU = "npu"


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareDevice:
    """One CPU, GPU or NPU of a machine.

    Attributes:
        type: kind of device.
        name: name for people, e.g. "Intel Arc Graphics".
        vendor: name of the maker, e.g. "Intel"; "" if unknown.
        vendor_id, device_id: PCI (or ACPI) numbers; 0 if unknown.
        is_discrete: for GPUs, True if it has memory of its own; None if unknown.
        memory_nbytes: memory of the device (of the machine for a CPU), in bytes; None if unknown.
        architecture: archspec's microarchitecture name for a CPU, the vendor's architecture name
            otherwise.
        metadata: everything else ("driver", "driver_version", "instruction_sets", ...).
        source: source of the facts, e.g. "sysfs", "openvino".
        free_memory_nbytes: unused part of ``memory_nbytes`` at the time of the query; None if
            unknown. It changes from one moment to the next, so it is neither compared nor part of a
            fingerprint.
        fact_sources: name of an attribute, or "metadata.<key>" → its source, if that is not
            ``source``; not compared.
    """

    type: DeviceType
    name: str = ""
    vendor: str = ""
    vendor_id: int = 0
    device_id: int = 0
    is_discrete: bool | None = None
    memory_nbytes: int | None = None
    architecture: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    free_memory_nbytes: int | None = field(default=None, compare=False)
    fact_sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def is_absent(self) -> bool:
        """Return True for a device that is not here ("virtual"): an EP only compiles for it."""
        return "is_virtual" in self.metadata

    def source_of(self, fact: str) -> str:
        """Return the source of an attribute or of a metadata entry.

        ``fact``: "memory_nbytes", for example, or "metadata.driver_version".
        """
        return self.fact_sources.get(fact, self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpDevice:
    """An execution provider's offer to run on one hardware device (OrtEpDevice).

    Attributes:
        ep_name: ONNX Runtime's name ("OpenVINOExecutionProvider").
        ep_vendor: maker of the EP.
        device: the hardware; None if the EP reports no devices (provider-bridge EPs), then device
            rules are skipped.
        ep_version: version of the EP's library.
        backend: implementation of the EP: "embedded", "openvino", "onnxruntime", or a plug-in's
            name.
        ep_metadata, ep_options: metadata and options that the EP reports.
    """

    ep_name: str
    device: HardwareDevice | None
    ep_vendor: str = ""
    ep_version: str = ""
    backend: str = "embedded"
    ep_metadata: Mapping[str, str] = field(default_factory=dict)
    ep_options: Mapping[str, str] = field(default_factory=dict)

    @property
    def ep_and_backend(self) -> str:
        """Text for people, e.g. "CPUExecutionProvider (embedded)"."""
        return f"{self.ep_name} ({self.backend})"


def hardware_label(device: HardwareDevice) -> str:
    """Return a text for people, e.g. "GPU (NVIDIA H200)"; only the type if the name is unknown.

    Names come from hardware and drivers, so they are escaped.
    """
    kind = device.type.value.upper()
    return f"{kind} ({unquoted(device.name)})" if device.name else kind
