"""Names that authors of execution providers import, each loaded on first use.

A factory is asked while a variant is selected, so what it imports from here must not load numpy.
docs/plugins.md shows how to write one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortpkg.foundations.public_names import module_of_name, public_object_of

if TYPE_CHECKING:
    from ortpkg.graph.graph import Graph as Graph
    from ortpkg.graph.graph import Node as Node
    from ortpkg.graph.types import ElementType as ElementType
    from ortpkg.graph.types import TensorType as TensorType
    from ortpkg.graph.types import numpy_dtype as numpy_dtype
    from ortpkg.machine.hardware import DeviceType as DeviceType
    from ortpkg.machine.hardware import EpDevice as EpDevice
    from ortpkg.machine.hardware import HardwareDevice as HardwareDevice
    from ortpkg.runtime.ep_context.ep_context_descriptor import (
        ContextDescriptor as ContextDescriptor,
    )
    from ortpkg.runtime.ep_context.ep_context_descriptor import ContextMismatch as ContextMismatch
    from ortpkg.runtime.ep_context.ep_context_file import ContextEntry as ContextEntry
    from ortpkg.runtime.kernels.device_tensor import DeviceTensor as DeviceTensor
    from ortpkg.runtime.kernels.op_kernel import OpKernelContext as OpKernelContext
    from ortpkg.runtime.providers.allocator import Allocator as Allocator
    from ortpkg.runtime.providers.compiling_provider import CompilingProvider as CompilingProvider
    from ortpkg.runtime.providers.ep_factory import (
        CompiledModelCompatibility as CompiledModelCompatibility,
    )
    from ortpkg.runtime.providers.ep_factory import CpuDevicesEpFactory as CpuDevicesEpFactory
    from ortpkg.runtime.providers.ep_factory import EpFactory as EpFactory
    from ortpkg.runtime.providers.execution_provider import ComputeCapability as ComputeCapability
    from ortpkg.runtime.providers.execution_provider import ExecutionProvider as ExecutionProvider
    from ortpkg.runtime.providers.execution_provider import FusedNode as FusedNode
    from ortpkg.runtime.providers.execution_provider import GraphEngine as GraphEngine
    from ortpkg.runtime.providers.execution_provider import GraphViewer as GraphViewer
    from ortpkg.runtime.providers.execution_provider import MetaDef as MetaDef
    from ortpkg.runtime.providers.execution_provider import NodeComputeInfo as NodeComputeInfo

MODULE_OF_NAME = module_of_name(
    {
        "ortpkg.graph.graph": "Graph Node",
        "ortpkg.graph.types": "ElementType TensorType numpy_dtype",
        "ortpkg.machine.hardware": "DeviceType EpDevice HardwareDevice",
        "ortpkg.runtime.ep_context.ep_context_descriptor": "ContextDescriptor ContextMismatch",
        "ortpkg.runtime.ep_context.ep_context_file": "ContextEntry",
        "ortpkg.runtime.kernels.device_tensor": "DeviceTensor",
        "ortpkg.runtime.kernels.op_kernel": "OpKernelContext",
        "ortpkg.runtime.providers.allocator": "Allocator",
        "ortpkg.runtime.providers.compiling_provider": "CompilingProvider",
        "ortpkg.runtime.providers.ep_factory": (
            "CompiledModelCompatibility CpuDevicesEpFactory EpFactory"
        ),
        "ortpkg.runtime.providers.execution_provider": (
            "ComputeCapability ExecutionProvider FusedNode GraphEngine GraphViewer MetaDef"
            " NodeComputeInfo"
        ),
    }
)


def __getattr__(name: str) -> Any:
    return public_object_of(name, MODULE_OF_NAME, __name__)


def __dir__() -> list[str]:
    return sorted(MODULE_OF_NAME)
