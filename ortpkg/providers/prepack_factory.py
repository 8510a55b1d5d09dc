"""The factory of PrepackExecutionProvider.

Offered only where a variant, an option or a caller names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ortpkg.devices.hardware import EpDevice, HardwareDevice
from ortpkg.ep_names import PREPACK_EP
from ortpkg.graph.needed_operators import ModelOperators
from ortpkg.providers.ep_factory import CompiledModelCompatibility, CpuDevicesEpFactory
from ortpkg.providers.operator_support import OperatorSupport, embedded_support
from ortpkg.providers.prepack_compatibility import rate

if TYPE_CHECKING:
    from ortpkg.providers.execution_provider import ExecutionProvider


class PrepackEpFactory(CpuDevicesEpFactory):
    """PrepackExecutionProvider: our own kernels, compiled ahead."""

    ep_name = PREPACK_EP
    backend = "prepack"

    def validate_compiled_model_compatibility_info(
        self, devices: Sequence[HardwareDevice], info: str
    ) -> CompiledModelCompatibility:
        return rate(devices, info, version=self.version)

    def operator_support(self, needed: ModelOperators) -> OperatorSupport:
        return embedded_support(needed, context_ep=self.ep_name)

    def create(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> ExecutionProvider:
        # numpy is loaded only when a session is made.
        from ortpkg.providers.prepack_execution_provider import PrepackExecutionProvider

        return PrepackExecutionProvider(ep_devices=devices, options=options)
