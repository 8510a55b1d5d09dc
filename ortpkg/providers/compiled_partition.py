"""A partition that a provider compiled or loaded, and how a fused node calls it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ortpkg.errors import EpContextError
from ortpkg.graph.graph import Graph, Node
from ortpkg.kernels.op_kernel import OpKernelContext
from ortpkg.providers.execution_provider import BackendPlacement, FusedNode


class CompiledPartition(Protocol):
    """A partition inside a foreign library, or compiled by ourselves."""

    def compute(self, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
        """Runs it on arrays in the order of its inputs; new arrays in the order of its outputs.

        Thread-safe.

        Ends early, with the error of ``context.check_cancelled``, where the run is to end.
        """
        ...


class NotCompiled:
    """Stands for a partition in a session that only explains what the cache has."""

    def compute(self, inputs: Sequence[Any], context: object) -> Sequence[Any]:  # noqa: ARG002
        raise EpContextError(
            "the session was made to explain the cache of contexts, not to run", ep_name=""
        )

    def get_placement(self) -> Sequence[BackendPlacement]:
        return ()


class _AsFused:
    """A loaded context as its node calls it: constants filled in, unused outputs left out."""

    def __init__(self, compiled: CompiledPartition, node: Node, body: Graph) -> None:
        places = {name: place for place, name in enumerate(body.inputs)}
        self._compiled = compiled
        self._sources: list[Any] = [
            None
            if not name
            else places[name]
            if name in places
            else body.initializers[name].numpy()
            for name in node.inputs
        ]
        self._outputs = [node.outputs.index(name) for name in body.outputs]

    def compute(self, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
        given = [inputs[source] if isinstance(source, int) else source for source in self._sources]
        made = self._compiled.compute(given, context)
        return [made[place] for place in self._outputs]


def as_fused(compiled: CompiledPartition, node: Node, body: Graph) -> CompiledPartition:
    """The context of EPContext node ``node``, called as the fused node's ``body`` is."""
    if tuple(node.inputs) == body.inputs and tuple(node.outputs) == body.outputs:
        return compiled
    return _AsFused(compiled, node, body)


def has_compute(compiled: object) -> bool:
    """Whether it can be called at all: plug-ins return what they like."""
    return callable(getattr(compiled, "compute", None))


def arity_of(fused: FusedNode) -> tuple[int, int]:
    """How many inputs and outputs the partition has."""
    return len(fused.body.inputs), len(fused.body.outputs)
