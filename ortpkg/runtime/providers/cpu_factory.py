"""Factory of the embedded engine's CPU provider: always available, runs every ONNX operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.graph.needed_operators import ModelOperators
from ortpkg.machine.hardware import EpDevice, HardwareDevice
from ortpkg.runtime.providers.compatibility_info import is_own_text
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility, CpuDevicesEpFactory
from ortpkg.runtime.providers.operator_support import OperatorSupport, embedded_support

if TYPE_CHECKING:
    from ortpkg.runtime.providers.execution_provider import ExecutionProvider


class CpuEpFactory(CpuDevicesEpFactory):
    """CPUExecutionProvider on the embedded engine."""

    ep_name = CPU_EP
    backend = "embedded"

    def validate_compiled_model_compatibility_info(
        self, devices: Sequence[HardwareDevice], info: str
    ) -> CompiledModelCompatibility:
        """Return UNSUPPORTED for contexts that onnxruntime's provider of the same name compiled.

        This provider has no contexts of its own.
        """
        if is_own_text(info, "onnxruntime"):
            return CompiledModelCompatibility.UNSUPPORTED
        return super().validate_compiled_model_compatibility_info(devices, info)

    def operator_support(self, needed: ModelOperators) -> OperatorSupport:
        return embedded_support(needed)

    def create(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> ExecutionProvider:
        # numpy is loaded only when a session is made.
        from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider

        return CPUExecutionProvider(ep_devices=devices, options=options)
