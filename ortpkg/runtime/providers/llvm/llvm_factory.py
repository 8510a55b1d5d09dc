"""Factory of LLVMExecutionProvider.

Code that was compiled ahead runs wherever ortpkg does; to compile, llvmlite must be installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.graph.needed_operators import ModelOperators
from ortpkg.machine.hardware import EpDevice, HardwareDevice
from ortpkg.runtime.providers.ep_factory import (
    ONLY_CONTEXTS,
    CompiledModelCompatibility,
    CpuDevicesEpFactory,
)
from ortpkg.runtime.providers.llvm.llvm_compiler import COMPILER, has_compiler
from ortpkg.runtime.providers.operator_support import OperatorSupport, embedded_support

if TYPE_CHECKING:
    from ortpkg.runtime.providers.execution_provider import ExecutionProvider


class LlvmEpFactory(CpuDevicesEpFactory):
    """LLVMExecutionProvider: machine code for the CPU, compiled by LLVM."""

    ep_name = LLVM_EP
    backend = "llvm"

    def __init__(self, os: str | None = None, software: Mapping[str, str] | None = None) -> None:
        """Make the factory for this machine, or for one under ``os`` with that software."""
        self._os = os
        self._software = software

    def for_machine(self, os: str, software: Mapping[str, str] | None) -> LlvmEpFactory:
        return LlvmEpFactory(os, software)

    def get_supported_devices(self, hardware: Sequence[HardwareDevice]) -> list[EpDevice]:
        """Return one EP device per CPU; its metadata says if it compiles nothing."""
        offered = super().get_supported_devices(hardware)
        return [
            ep_device
            if ep_device.device is not None and self._compiles_for(ep_device.device)
            else replace(ep_device, ep_metadata=ONLY_CONTEXTS)
            for ep_device in offered
        ]

    def _compiles_for(self, cpu: HardwareDevice) -> bool:
        from ortpkg.compiler.machine_code.cpu_targets import targets_of  # only where it is offered

        return self._has_compiler() and bool(targets_of(cpu, self._system()))

    def _has_compiler(self) -> bool:
        return has_compiler() if self._software is None else COMPILER in self._software

    def _reason_against_code(self) -> str | None:
        """Return why this system runs no code of ours; None if it does, or for another machine."""
        from ortpkg.compiler.machine_code.executable_memory import reason_against_code  # as above

        return None if self._software is not None else reason_against_code()

    def validate_compiled_model_compatibility_info(
        self, devices: Sequence[HardwareDevice], info: str
    ) -> CompiledModelCompatibility:
        from ortpkg.runtime.providers.llvm import (
            llvm_compatibility,  # only where there is such a string
        )

        if self._reason_against_code() is not None:
            return CompiledModelCompatibility.UNSUPPORTED
        return llvm_compatibility.rate(
            devices, info, os=self._system(), can_compile=self._has_compiler()
        )

    def compiled_model_distance(self, devices: Sequence[HardwareDevice], info: str) -> int:
        from ortpkg.runtime.providers.llvm import llvm_compatibility  # as above

        return llvm_compatibility.distance(devices, info, os=self._system())

    def compiled_model_refusal(self, devices: Sequence[HardwareDevice], info: str) -> str:
        from ortpkg.runtime.providers.llvm import llvm_compatibility  # as above

        return (
            self._reason_against_code()
            or llvm_compatibility.refusal(devices, info, os=self._system())
            or llvm_compatibility.why_recompile(devices, info, os=self._system())
        )

    def _system(self) -> str:
        from ortpkg.machine.machine_probe import probe  # as above

        return probe().os if self._os is None else self._os

    def operator_support(self, needed: ModelOperators) -> OperatorSupport:
        return embedded_support(needed, context_ep=self.ep_name)

    def create(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> ExecutionProvider:
        # numpy is loaded only when a session is made.
        from ortpkg.runtime.providers.llvm.llvm_execution_provider import LLVMExecutionProvider

        return LLVMExecutionProvider(ep_devices=devices, options=options)
