"""A plug-in whose only purpose is to fail, each variant in the way that its option ``fault`` says.

Copied into a directory of its own with an entry point beside it, as an installed distribution would
be.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.providers.ep_factory import CpuDevicesEpFactory
from ortpkg.runtime.providers.execution_provider import BackendPlacement, ExecutionProvider
from ortpkg.runtime.providers.native_execution_provider import NativeExecutionProvider
from ortpkg.runtime.providers.native_library import CompiledModel, NativeLibrary, NativeModel

EP_NAME = "FaultyExecutionProvider"


class FaultyFactory(CpuDevicesEpFactory):
    ep_name = EP_NAME
    vendor = "Nobody"
    backend = "faulty"

    @property
    def version(self) -> str:
        return metadata.version("faulty")

    def create(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> ExecutionProvider:
        return NativeExecutionProvider(
            EP_NAME, FaultyLibrary(options), ep_devices=devices, options=options
        )


class FaultyLibrary(NativeLibrary):
    backend = "faulty"

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def compile_model(self, model: NativeModel) -> CompiledModel:
        fault = self._options.get("fault", "")
        if fault == "abort":
            os.write(2, b"driver: assertion failed\n")
            os.abort()
        if fault == "refuse":
            raise ValueError("no such operator")
        if fault == "exit":
            os._exit(0)
        if fault == "memory":
            hoard = [np.ones(1 << 22) for _ in range(200)]  # 6.7 GB
            time.sleep(60)
            del hoard
        return FaultyModel(fault)


class FaultyModel:
    """y = 2 x, or what the fault makes of it."""

    def __init__(self, fault: str) -> None:
        self._fault = fault

    def compute(self, inputs: Sequence[Any], context: Any) -> Sequence[Any]:
        if self._fault == "hang":
            time.sleep(600)
        if self._fault == "raise":
            raise RuntimeError("device lost\x1b[2J")
        if self._fault == "chatter":
            print("garbage on standard output")
            os.write(1, b'{"value": {"times_ns": []}}\n')
        result = np.asarray(inputs[0]) * np.float32(2)
        if self._fault == "wrong":
            result = result + np.float32(1)
        if self._fault == "nan":
            result = np.full_like(result, np.nan)
        if self._fault == "shape":
            result = result[:, :2]
        sys.stdout.flush()
        return [result]

    def get_placement(self) -> Sequence[BackendPlacement]:
        return ()
