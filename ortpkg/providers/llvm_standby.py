"""The numpy engine in the place of machine code, for runs whose shapes the code does not take.

Code is compiled for what a model says of its sizes: that two inputs have the same batch, that a
dimension is 3. Models say such things wrongly, and run elsewhere all the same. A provider that
nobody asked for must not cost such a run (docs/adr/0016-default-providers.md).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from threading import Lock
from typing import Any

from ortpkg.errors import OrtpkgError
from ortpkg.graph.byte_source import MappedFile
from ortpkg.graph.graph import Graph
from ortpkg.graph.initializers import MappedInitializer
from ortpkg.kernels.cpu_kernels import cpu_kernel_registry
from ortpkg.kernels.kernel_registry import KernelRegistry
from ortpkg.kernels.op_kernel import OpKernelContext
from ortpkg.kernels.op_kernel_info import NodeKernelInfo
from ortpkg.machine_code.launch_plan import ShapesMisfitError
from ortpkg.providers.execution_provider import ExecutionProvider, GraphEngine, PlannedGraph

_log = logging.getLogger(__name__)

#: Constants of a partition that lie in no file are kept for it up to so many bytes.
_MOST_KEPT_NBYTES = 16 << 20


class StandbyPartition:
    """A partition's nodes on the embedded kernels, planned when a run first needs them."""

    def __init__(self, graph: Graph, engine: GraphEngine, ep_name: str) -> None:
        self._graph, self._engine, self._ep_name = graph, engine, ep_name
        self._planned: PlannedGraph | None = None
        self._lock = Lock()

    def compute(
        self, inputs: Sequence[Any], context: OpKernelContext, reason: ShapesMisfitError
    ) -> Sequence[Any]:
        """Runs the nodes on arrays in the order of the partition's inputs.

        Raises ``reason`` where the engine has no kernel for a node, and what kernels raise.
        """
        return self._ready(reason).run(inputs, context)

    def release(self) -> None:
        """Frees the memory that it keeps between runs."""
        if self._planned is not None:
            self._planned.release()

    def _ready(self, reason: ShapesMisfitError) -> PlannedGraph:
        with self._lock:
            if self._planned is None:
                kernels = _EmbeddedKernels(self._ep_name, cpu_kernel_registry())
                try:
                    self._planned = self._engine.plan(self._graph, kernels, NodeKernelInfo)
                except OrtpkgError as error:
                    raise reason from error
                _log.warning(
                    "%s leaves runs with such shapes to the numpy engine, which is slower: %s",
                    self._ep_name, reason,
                )  # fmt: skip
            return self._planned


class _EmbeddedKernels(ExecutionProvider):
    """The embedded kernels under the name of the provider whose nodes they compute."""

    def __init__(self, name: str, registry: KernelRegistry) -> None:
        super().__init__(name)
        self._registry = registry

    @property
    def kernel_registry(self) -> KernelRegistry:
        return self._registry


def forget_arrays(graph: Graph) -> None:
    """Lets go of what was decoded of constants that stay in files."""
    for initializer in graph.initializers.values():
        if isinstance(initializer, MappedInitializer):
            initializer.forget()


def can_stand_by(graph: Graph) -> bool:
    """Whether a partition's constants may stay: they lie in files, or are small."""
    return (
        sum(
            initializer.nbytes
            for initializer in graph.initializers.values()
            if not _is_in_file(initializer)
        )
        <= _MOST_KEPT_NBYTES
    )


def _is_in_file(initializer: object) -> bool:
    return isinstance(initializer, MappedInitializer) and isinstance(initializer.source, MappedFile)
