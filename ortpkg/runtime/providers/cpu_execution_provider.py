"""Embedded CPU provider: numpy kernels for common operators, ``onnx.reference`` for the rest.

It runs every operator. It comes last in every session, and is added if the caller left it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortpkg.graph.graph import Node
from ortpkg.graph.types import ElementType
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.kernels.cpu_kernels import cpu_kernel_registry
from ortpkg.runtime.kernels.custom_op_kernel import find_custom_kernel
from ortpkg.runtime.kernels.kernel_registry import KernelDef, KernelRegistry
from ortpkg.runtime.kernels.reference_kernels import find_reference_kernel
from ortpkg.runtime.providers.execution_provider import ExecutionProvider

CPU_EXECUTION_PROVIDER = "CPUExecutionProvider"


class CPUExecutionProvider(ExecutionProvider):
    """Execution provider that runs every operator of ONNX, one node at a time."""

    backend = "embedded"

    def __init__(
        self,
        *,
        ep_devices: Sequence[EpDevice] = (),
        options: Mapping[str, str] | None = None,
        registry: KernelRegistry | None = None,
        is_requested: bool = True,
    ) -> None:
        """Make the provider with our kernels, or those of ``registry``.

        Args:
            ep_devices, options: as for every execution provider.
            registry: kernels to use instead of all of ours.
            is_requested: False if it joins a session whose caller did not name it.
        """
        super().__init__(CPU_EXECUTION_PROVIDER, ep_devices=ep_devices, options=options)
        self.is_requested = is_requested
        self._registry = cpu_kernel_registry() if registry is None else registry

    @property
    def kernel_registry(self) -> KernelRegistry:
        return self._registry

    def find_kernel(self, node: Node, types: Mapping[str, ElementType]) -> KernelDef | None:
        """Return a kernel of ours, else one that the program registered, else the reference's."""
        kernel = self._registry.try_find_kernel(node, types)
        if kernel is None:
            kernel = find_custom_kernel(node)
        return (
            kernel
            if kernel is not None
            else find_reference_kernel(node, {node.domain: node.since_version}, types)
        )
