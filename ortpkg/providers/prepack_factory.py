"""The factory of PrepackExecutionProvider; offered only where a variant, an option or a caller names it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ortpkg.devices.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.ep_names import PREPACK_EP
from ortpkg.providers.ep_factory import CompiledModelCompatibility, EpFactory
from ortpkg.providers.prepack_compatibility import rate
from ortpkg.version import __version__

if TYPE_CHECKING:
    from ortpkg.providers.execution_provider import ExecutionProvider


class PrepackEpFactory(EpFactory):
    """PrepackExecutionProvider: our own kernels, compiled ahead."""

    ep_name = PREPACK_EP
    vendor = "ortpkg"
    backend = "prepack"

    @property
    def version(self) -> str:
        return __version__

    def is_available(self) -> bool:
        return True

    def get_supported_devices(self, hardware: Sequence[HardwareDevice]) -> list[EpDevice]:
        """One EP device per CPU."""
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

    def validate_compiled_model_compatibility_info(
        self, devices: Sequence[HardwareDevice], info: str
    ) -> CompiledModelCompatibility:
        return rate(devices, info, version=self.version)

    def create(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> ExecutionProvider:
        # numpy is loaded only when a session is made.
        from ortpkg.providers.prepack_execution_provider import PrepackExecutionProvider

        return PrepackExecutionProvider(ep_devices=devices, options=options)
