"""A plug-in that squares and negates, and fails as ``FAULT`` says ("run:abort")."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ortpkg.graph.graph import Node
from ortpkg.graph.types import ElementType
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.kernels.kernel_registry import KernelDef, KernelRegistry
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo
from ortpkg.runtime.providers.ep_factory import CpuDevicesEpFactory
from ortpkg.runtime.providers.execution_provider import (
    Allocator,
    BackendPlacement,
    ComputeCapability,
    ExecutionProvider,
    FusedNode,
    GraphViewer,
    MetaDef,
    NodeComputeInfo,
)

NAME = "FaultyPlugExecutionProvider"


class Factory(CpuDevicesEpFactory):
    ep_name = NAME
    vendor = "Nobody"
    backend = "faulty-plug"

    @property
    def version(self) -> str:
        return "1.0"

    def create(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> ExecutionProvider:
        fail_at("create")
        return Provider(NAME, ep_devices=devices, options=options)


class Provider(ExecutionProvider):
    backend = "faulty-plug"

    @property
    def kernel_registry(self) -> KernelRegistry:
        return KernelRegistry([KernelDef(op_type="Neg", domain="", since=(6, 13), factory=_negate)])

    def create_allocator(self) -> Allocator:
        fail_at("create_allocator")
        return super().create_allocator()

    def get_placement(self, fused_node: str) -> Sequence[BackendPlacement]:
        fail_at("get_placement")
        return super().get_placement(fused_node)

    def close(self) -> None:
        fail_at("close")

    def get_capability(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> list[ComputeCapability]:
        fail_at("claim")
        squares = [node for node in viewer.nodes if node.op_type == "Mul"]
        metas = [
            MetaDef(name="Square", inputs=node.inputs[:1], outputs=node.outputs) for node in squares
        ]
        fused = zip(squares, metas, strict=True)
        found = [
            ComputeCapability(node_indices=(node.index,), meta_def=meta) for node, meta in fused
        ]
        times = 2 if os.environ.get("FAULT") == "claim:twice" else 1
        return [*found, *super().get_capability(viewer, types_of) * times]

    def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
        fail_at("compile")
        return [
            NodeComputeInfo(
                compute=_square,
                create_state=lambda _name: fail_at("create_state"),
                release_state=lambda _state: fail_at("release_state"),
            )
            for _ in fused_nodes
        ]


def _negate(_info: OpKernelInfo) -> Compute:
    fail_at("kernel")
    return lambda _context, x: -x


def _square(_state: Any, inputs: Sequence[Any], _context: OpKernelContext) -> Sequence[Any]:
    fail_at("run", is_wanted=bool(inputs[0].size) and inputs[0].flat[0] == 666)
    return [inputs[0] * inputs[0]]


def fail_at(place: str, *, is_wanted: bool = True) -> None:
    where, _, how = os.environ.get("FAULT", "").partition(":")
    if where == place and is_wanted:
        _HARM[how]()


def _eat() -> None:
    hoard = [np.ones(1 << 22) for _ in range(100)]  # 3.4 GB
    time.sleep(60)
    del hoard


def _eat_beside() -> None:
    """What eats is another process, which this one waits for."""
    program = "import time; hoard = bytearray(b'1') * 2_000_000_000; time.sleep(60)"
    subprocess.run([sys.executable, "-c", program], check=False)


def _raise() -> None:
    raise KeyError("no such thing")


def _fork() -> None:
    os.fork()  # both return, and go on


_HARM: Mapping[str, Callable[[], object]] = {
    "abort": os.abort,
    "hang": lambda: time.sleep(600),
    "exit": lambda: os._exit(7),
    "sys.exit": lambda: sys.exit("licence expired"),
    "print": lambda: os.write(1, b"NOISE\n" * 100_000),
    "raise": _raise,
    "eat": _eat,
    "eat beside": _eat_beside,
    "fork": _fork,
    "twice": lambda: None,
}
