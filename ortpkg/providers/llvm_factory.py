"""The factory of LLVMExecutionProvider.

Code that was compiled ahead runs wherever ortpkg does; to compile, llvmlite must be installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ortpkg.devices.hardware import EpDevice, HardwareDevice
from ortpkg.ep_names import LLVM_EP
from ortpkg.graph.needed_operators import ModelOperators
from ortpkg.providers.ep_factory import CompiledModelCompatibility, CpuDevicesEpFactory
from ortpkg.providers.operator_support import OperatorSupport, embedded_support

if TYPE_CHECKING:
    from ortpkg.providers.execution_provider import ExecutionProvider


class LlvmEpFactory(CpuDevicesEpFactory):
    """LLVMExecutionProvider: machine code for the CPU, compiled by LLVM."""

    ep_name = LLVM_EP
    backend = "llvm"

    def __init__(self, os: str | None = None, software: Mapping[str, str] | None = None) -> None:
        """The factory for this machine, or for one under ``os`` with that software."""
        self._os = os
        self._software = software

    def for_machine(self, os: str, software: Mapping[str, str] | None) -> LlvmEpFactory:
        return LlvmEpFactory(os, software)

    def validate_compiled_model_compatibility_info(
        self, devices: Sequence[HardwareDevice], info: str
    ) -> CompiledModelCompatibility:
        # only where there is such a string
        from ortpkg.machine_code.executable_memory import reason_against_code
        from ortpkg.providers import llvm_compatibility

        if self._software is not None:
            can_compile = llvm_compatibility.COMPILER in self._software
        elif reason_against_code() is not None:
            return CompiledModelCompatibility.UNSUPPORTED
        else:
            can_compile = llvm_compatibility.has_compiler()
        return llvm_compatibility.rate(devices, info, os=self._system(), can_compile=can_compile)

    def compiled_model_distance(self, devices: Sequence[HardwareDevice], info: str) -> int:
        from ortpkg.providers import llvm_compatibility  # as above

        return llvm_compatibility.distance(devices, info, os=self._system())

    def _system(self) -> str:
        from ortpkg.devices.machine_probe import probe  # as above

        return probe().os if self._os is None else self._os

    def operator_support(self, needed: ModelOperators) -> OperatorSupport:
        return embedded_support(needed, context_ep=self.ep_name)

    def create(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> ExecutionProvider:
        # numpy is loaded only when a session is made.
        from ortpkg.providers.llvm_execution_provider import LLVMExecutionProvider

        return LLVMExecutionProvider(ep_devices=devices, options=options)
