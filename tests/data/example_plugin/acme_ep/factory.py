"""The light side, asked while a variant is selected: imports only what ortpkg has loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ortpkg.api.execution_providers import (
    CompiledModelCompatibility,
    DeviceType,
    EpDevice,
    EpFactory,
    HardwareDevice,
)

if TYPE_CHECKING:
    from ortpkg.api.execution_providers import ExecutionProvider

#: What the compiler of this release writes into compiled models, and what the one before it wrote.
_CURRENT, _PREVIOUS = "acme-2", "acme-1"


class AcmeEpFactory(EpFactory):
    """AcmeExecutionProvider, which runs on any CPU."""

    ep_name = "AcmeExecutionProvider"
    vendor = "Acme"
    backend = "acme"

    @property
    def version(self) -> str:
        return "1.0.0"

    def is_available(self) -> bool:
        return True

    def get_supported_devices(self, hardware: Sequence[HardwareDevice]) -> list[EpDevice]:
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
        if info == _CURRENT:
            return CompiledModelCompatibility.OPTIMAL
        if info == _PREVIOUS:
            return CompiledModelCompatibility.PREFER_RECOMPILATION
        return CompiledModelCompatibility.UNSUPPORTED

    def create(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> ExecutionProvider:
        # The heavy side is loaded only when a session is made.
        from acme_ep.provider import AcmeExecutionProvider

        provider: ExecutionProvider = AcmeExecutionProvider(ep_devices=devices, options=options)
        return provider
