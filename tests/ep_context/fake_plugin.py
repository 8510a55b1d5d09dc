"""The fake compiler as an installed plug-in, for child processes.

Options and the environment say how it fails.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ortpkg.graph.graph import Graph
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.runtime.ep_context.ep_context_file import ContextEntry
from ortpkg.runtime.kernels.op_kernel import OpKernelContext
from ortpkg.runtime.providers.compiled_partition import CompiledPartition
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility, EpFactory
from ortpkg.runtime.providers.execution_provider import ExecutionProvider, FusedNode
from tests.ep_context.fake_compiler import ENVIRONMENT, NAME, FakeCompiler


class FakeFactory(EpFactory):
    ep_name = NAME
    vendor = "Nobody"
    backend = "fake"

    @property
    def version(self) -> str:
        return environment().sdk_version

    def is_available(self) -> bool:
        return True

    def get_supported_devices(self, hardware: Sequence[HardwareDevice]) -> list[EpDevice]:
        return [
            EpDevice(ep_name=NAME, device=device, backend=self.backend, ep_version=self.version)
            for device in hardware
            if device.type is DeviceType.CPU
        ]

    def validate_compiled_model_compatibility_info(
        self, devices: Sequence[HardwareDevice], info: str
    ) -> CompiledModelCompatibility:
        del devices
        made, here = info.removeprefix("fake ").split("."), self.version.split(".")
        if made == here:
            return CompiledModelCompatibility.OPTIMAL
        if made[0] == here[0]:
            return CompiledModelCompatibility.PREFER_RECOMPILATION
        return CompiledModelCompatibility.UNSUPPORTED

    def create(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> ExecutionProvider:
        fail_at("create")
        return FaultyCompiler(devices, options)


class FaultyCompiler(FakeCompiler):
    """The fake compiler, or one that fails as its option ``fault`` says."""

    def __init__(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> None:
        super().__init__(environment=environment())
        self.options = dict(options)
        self._ep_devices = tuple(devices)
        if options.get("fault") == "nothing":
            self.operators = frozenset()

    def compile_partition(self, fused: FusedNode) -> CompiledPartition:
        fault = self.options.get("fault")
        if fault == "abort":
            os.abort()
        if fault == "hang":
            with Path(os.environ.get("FAKE_MARK", os.devnull)).open("wb", buffering=0) as at_work:
                at_work.write(b"compiling")
                time.sleep(600)
        if fault == "exit":
            sys.exit("licence expired")
        if fault == "raise" or fault == fused.node.name.partition("_")[0]:
            raise ValueError("no such instruction")
        return super().compile_partition(fused)

    def describe_environment(self) -> ContextDescriptor:
        fail_at("describe")
        return super().describe_environment()

    def import_context(self, entry: ContextEntry, fused: FusedNode) -> CompiledPartition:
        fail_at("load")
        return _FaultyPartition(super().import_context(entry, fused))

    def get_compiled_model_compatibility_info(self, graph: Graph) -> str:
        del graph
        return f"fake {self.environment.sdk_version}"


class _FaultyPartition:
    def __init__(self, compiled: CompiledPartition) -> None:
        self._compiled = compiled

    def compute(self, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
        fail_at("run")
        return self._compiled.compute(inputs, context)


def fail_at(place: str) -> None:
    """Fails as ``FAKE_FAULT`` says, "load:abort" say, where that names the place."""
    where, _, how = os.environ.get("FAKE_FAULT", "").partition(":")
    if where != place:
        return
    if how == "abort":
        os.abort()
    if how == "hang":
        time.sleep(600)
    if how == "exit":
        sys.exit("licence expired")
    raise ValueError("no such device")


def environment() -> ContextDescriptor:
    """What contexts depend on; ``FAKE_ENVIRONMENT`` changes fields of it."""
    return replace(ENVIRONMENT, **json.loads(os.environ.get("FAKE_ENVIRONMENT", "{}")))
