"""Runs a partition on the numpy engine when the compiled one refuses a run.

Code is compiled for the sizes that a model declares: equal batches of two inputs, a dimension of 3.
Some models declare them wrongly and run with other engines nevertheless. A library refuses runs in
words of its own, or returns nonsense for an index that is out of range. A default provider must not
make such runs fail (docs/adr/0016-default-providers.md).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from threading import Lock
from typing import Any

from ortpkg.foundations.errors import OrtpkgError, RunError
from ortpkg.graph.byte_source import MappedFile
from ortpkg.graph.graph import Graph
from ortpkg.graph.initializers import MappedInitializer
from ortpkg.runtime.kernels.op_kernel import OpKernelContext
from ortpkg.runtime.kernels.op_kernel_info import NodeKernelInfo
from ortpkg.runtime.providers.cpu_execution_provider import CPUExecutionProvider
from ortpkg.runtime.providers.execution_provider import GraphEngine, PlannedGraph

_log = logging.getLogger(__name__)

#: Largest size in bytes of constants in memory that a partition keeps for its standby.
_MOST_KEPT_NBYTES = 16 << 20


class StandbyPartition:
    """Nodes of a partition on the embedded kernels, planned when a run first needs them."""

    def __init__(self, graph: Graph, engine: GraphEngine, ep_name: str) -> None:
        self._graph, self._engine, self._ep_name = graph, engine, ep_name
        self._planned: PlannedGraph | None = None
        self._lock = Lock()

    def compute(
        self, inputs: Sequence[Any], context: OpKernelContext, reason: RunError
    ) -> Sequence[Any]:
        """Run the nodes; ``inputs`` are in the order of the partition's inputs.

        Raises ``reason`` if the engine has no kernel for a node, and errors of kernels.
        """
        return self._ready(reason).run(inputs, context)

    def release(self) -> None:
        """Free the memory that is kept between runs."""
        if self._planned is not None:
            self._planned.release()

    def _ready(self, reason: RunError) -> PlannedGraph:
        with self._lock:
            if self._planned is None:
                kernels = _EmbeddedKernels(self._ep_name)
                try:
                    self._planned = self._engine.plan(self._graph, kernels, NodeKernelInfo)
                except OrtpkgError as error:
                    raise reason from error
                _log.warning(
                    "%s leaves such runs to the numpy engine, which is slower: %s",
                    self._ep_name, reason,
                )  # fmt: skip
            return self._planned


class _EmbeddedKernels(CPUExecutionProvider):
    """CPU provider under the name of the provider whose nodes it computes."""

    def __init__(self, name: str) -> None:
        super().__init__(is_requested=False)
        self.name = name


def forget_arrays(graph: Graph) -> None:
    """Drop the decoded arrays of constants that can be read from their files again."""
    for initializer in graph.initializers.values():
        if isinstance(initializer, MappedInitializer):
            initializer.forget()


def can_stand_by(graph: Graph) -> bool:
    """Return True if a partition's constants can be kept: all but 16 MiB lie in files."""
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
