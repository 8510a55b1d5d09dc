"""EP factories: the light side of an execution provider, asked during selection.

Imports neither numpy nor onnx.

Source: OrtEpFactory (``onnxruntime_ep_c_api.h``), pull request 27786, DESIGN "Execution providers".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from ortpkg.foundations.version import __version__
from ortpkg.graph.needed_operators import ModelOperators
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.runtime.providers.operator_support import OperatorSupport

if TYPE_CHECKING:
    from ortpkg.runtime.providers.execution_provider import ExecutionProvider


class CompiledModelCompatibility(StrEnum):
    """OrtCompiledModelCompatibility, and UNKNOWN for an EP that is not installed here."""

    NOT_APPLICABLE = "EP_NOT_APPLICABLE"
    OPTIMAL = "EP_SUPPORTED_OPTIMAL"
    PREFER_RECOMPILATION = "EP_SUPPORTED_PREFER_RECOMPILATION"
    UNSUPPORTED = "EP_UNSUPPORTED"
    UNKNOWN = "COMPATIBILITY_UNKNOWN"


#: Backends that run variants that name no EP. Others, plug-ins among them, are used only if their
#: EP is named.
OFFERED_UNNAMED: frozenset[str] = frozenset({"embedded", "openvino", "onnxruntime", "llvm"})
#: Metadata of an EP device that compiles nothing: variants that name no EP do not run there.
ONLY_CONTEXTS: Mapping[str, str] = MappingProxyType({"runs": "compiled contexts alone"})


def is_offered_unnamed(ep_device: EpDevice) -> bool:
    """Return True if a variant that names no EP may run on the EP device."""
    runs_anything = not ONLY_CONTEXTS.items() <= ep_device.ep_metadata.items()
    return ep_device.backend in OFFERED_UNNAMED and runs_anything


class EpFactory(ABC):
    """Interface to an execution provider that is not loaded yet.

    Attributes:
        ep_name: ONNX Runtime's name, e.g. "OpenVINOExecutionProvider".
        vendor: vendor of the execution provider.
        backend: library that runs it here: "embedded", "openvino", "onnxruntime", or a plug-in's
            name.
    """

    ep_name: str
    vendor: str = ""
    backend: str = "embedded"

    @property
    @abstractmethod
    def version(self) -> str:
        """Version of the library behind it, found without importing that library."""

    @property
    def offer_note(self) -> str:
        """Note about the devices that it offered last; "" for none."""
        return ""

    @property
    def nothing_offered_note(self) -> str:
        """Note for an EP that is installed and offers no device; "" for none."""
        return ""

    @abstractmethod
    def is_available(self) -> bool:
        """Return True if the provider can be created here, that is, if its library is installed."""

    @abstractmethod
    def get_supported_devices(self, hardware: Sequence[HardwareDevice]) -> list[EpDevice]:
        """Return the devices of ``hardware`` that the provider runs on.

        One EpDevice with ``device=None`` means "available, but I report no devices": the device
        rule is then skipped. An empty list means that it cannot run here.
        """

    def for_machine(
        self,
        os: str,  # noqa: ARG002 - part of the interface
        software: Mapping[str, str] | None,  # noqa: ARG002
    ) -> EpFactory:
        """Return the factory for a machine that may be another one; by default itself.

        Args:
            os: "linux", "macos" or "windows".
            software: library → version on that machine; None: what is installed here.
        """
        return self

    def validate_compiled_model_compatibility_info(
        self,
        devices: Sequence[HardwareDevice],  # noqa: ARG002 - part of the interface
        info: str,  # noqa: ARG002
    ) -> CompiledModelCompatibility:
        """Rate a compiled model's compatibility string on ``devices``; by default there is none."""
        return CompiledModelCompatibility.NOT_APPLICABLE

    def compiled_model_distance(
        self,
        devices: Sequence[HardwareDevice],  # noqa: ARG002 - part of the interface
        info: str,  # noqa: ARG002
    ) -> int:
        """Return how far the target of a compiled model is behind ``devices``; 0 by default.

        Asked about compatibility strings that are OPTIMAL: of two, the nearer one is chosen.
        """
        return 0

    def compiled_model_refusal(
        self,
        devices: Sequence[HardwareDevice],  # noqa: ARG002 - part of the interface
        info: str,  # noqa: ARG002
    ) -> str:
        """Return why ``devices`` do not run a compiled model, or run it badly.

        The end of a sentence, asked about compatibility strings that are UNSUPPORTED or
        PREFER_RECOMPILATION; "", the default, if no more is known.
        """
        return ""

    def operator_support(self, needed: ModelOperators) -> OperatorSupport:
        """Return the needs of a model that neither the EP nor the CPU provider behind it meets.

        By default it cannot tell.
        """
        return OperatorSupport(unknown=needed)

    def has_device(
        self,
        ep_device: EpDevice,  # noqa: ARG002 - part of the interface
        hardware: Sequence[HardwareDevice],  # noqa: ARG002
    ) -> bool:
        """Return True if an EP device that it reported still exists; ``hardware`` is asked anew.

        True, too, if it cannot tell.

        Raises:
            ExecutionProviderError: its library fails to tell.
        """
        return True

    @abstractmethod
    def create(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> ExecutionProvider:
        """Make the provider; may import heavy modules.

        Raises:
            ExecutionProviderError: its library fails to load.
        """


class CpuDevicesEpFactory(EpFactory):
    """Factory of an EP of ours, which runs on any CPU and comes with ortpkg."""

    vendor = "ortpkg"

    @property
    def version(self) -> str:
        return __version__

    def is_available(self) -> bool:
        return True

    def get_supported_devices(self, hardware: Sequence[HardwareDevice]) -> list[EpDevice]:
        """Return one EP device per CPU."""
        return [
            EpDevice(
                ep_name=self.ep_name,
                device=device,
                ep_vendor=self.vendor,
                ep_version=self.version,
                backend=self.backend,
            )
            for device in hardware
            if device.type is DeviceType.CPU
        ]
