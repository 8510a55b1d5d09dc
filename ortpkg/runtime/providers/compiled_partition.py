"""Partition that a provider compiled or loaded, and the call of it by a fused node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ortpkg.foundations.errors import EpContextError
from ortpkg.graph.graph import Graph, Node
from ortpkg.runtime.kernels.op_kernel import OpKernelContext
from ortpkg.runtime.providers.execution_provider import BackendPlacement, FusedNode


class CompiledPartition(Protocol):
    """Partition inside a foreign library, or compiled by ourselves."""

    def compute(self, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
        """Run the partition on arrays; return new arrays in the order of its outputs.

        Thread-safe. Ends early, with the error of ``context.check_cancelled``, when the run is to
        end.

        Args:
            inputs: arrays in the order of the partition's inputs.
            context: context of the run.
        """
        ...


class NotCompiled:
    """Stand-in for a partition in a session that only explains what the cache holds."""

    def compute(self, inputs: Sequence[Any], context: object) -> Sequence[Any]:  # noqa: ARG002
        raise EpContextError(
            "the session was made to explain the cache of contexts, not to run", ep_name=""
        )

    def get_placement(self) -> Sequence[BackendPlacement]:
        return ()


class _AsFused:
    """Loaded context called with a node's slots: constants filled in, unused outputs left out."""

    def __init__(self, compiled: CompiledPartition, node: Node, body: Graph) -> None:
        positions = {name: position for position, name in enumerate(body.inputs)}
        self._compiled = compiled
        self._sources: list[Any] = [
            None
            if not name
            else positions[name]
            if name in positions
            else body.initializers[name].numpy()
            for name in node.inputs
        ]
        self._outputs = [node.outputs.index(name) for name in body.outputs]

    def compute(self, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
        arguments = [
            inputs[source] if isinstance(source, int) else source for source in self._sources
        ]
        made = self._compiled.compute(arguments, context)
        return [made[position] for position in self._outputs]


def as_fused(compiled: CompiledPartition, node: Node, body: Graph) -> CompiledPartition:
    """Return the context of an EPContext node, callable with the inputs and outputs of ``body``."""
    if tuple(node.inputs) == body.inputs and tuple(node.outputs) == body.outputs:
        return compiled
    return _AsFused(compiled, node, body)


def has_compute(compiled: object) -> bool:
    """Return True if a plug-in's result has a compute function; plug-ins may return anything."""
    return callable(getattr(compiled, "compute", None))


def arity_of(fused: FusedNode) -> tuple[int, int]:
    """Return the numbers of inputs and outputs of a partition."""
    return len(fused.body.inputs), len(fused.body.outputs)
