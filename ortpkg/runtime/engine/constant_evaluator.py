"""Compute single nodes on constants for folding, with providers' kernels, under a memory limit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortpkg.foundations.errors import OrtpkgError, RunError, printable
from ortpkg.foundations.host.signal_handlers import pass_on_handlers_error
from ortpkg.foundations.isolation.polling import polled
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.load_control import load_control
from ortpkg.graph.operator_schemas import constraint_types
from ortpkg.runtime.engine.fused_kernel import checked_kernel
from ortpkg.runtime.engine.plain_context import PlainContext
from ortpkg.runtime.engine.provider_answers import allocator_of, guard, is_foreign
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.kernels.op_kernel import Value
from ortpkg.runtime.kernels.op_kernel_info import make_compute
from ortpkg.runtime.providers.execution_provider import ExecutionProvider


class ConstantEvaluator:
    """Evaluator of nodes with the kernels of a session's providers."""

    def __init__(self, providers: Sequence[ExecutionProvider], *, memory_limit_nbytes: int) -> None:
        """Create an evaluator for the providers whose memory the CPU can read.

        Other providers are ignored, since constants are arrays. ``memory_limit_nbytes``: most bytes
        that the outputs of one node may take.
        """
        self._providers = [
            provider for provider in providers if allocator_of(provider).is_host_accessible
        ]
        self._limit = memory_limit_nbytes

    def __call__(self, graph: Graph, node: Node, inputs: Sequence[Value]) -> Sequence[Value] | None:
        """Return the outputs of ``node``; None if no provider has a kernel, or it has sub-graphs.

        Raises:
            OrtpkgError: the node fails, or needs too much memory.
        """
        if node.subgraphs:
            return None
        types = constraint_types(graph, node)
        for provider in self._providers:
            with guard(provider, f"say whether it has a kernel for node {node.name}"):
                definition = provider.find_kernel(node, types)
            if definition is not None:
                break
        else:
            return None
        if definition.is_async:
            return None
        compute = make_compute(graph, node, definition)
        if is_foreign(provider):
            compute = checked_kernel(compute, graph, node, provider.name)
        context = PlainContext(self._control())
        try:
            with np.errstate(all="ignore"), polled(context.check_cancelled):
                result = compute(context, *inputs)
        except OrtpkgError:
            raise
        except Exception as error:
            pass_on_handlers_error(error)
            raise RunError(f"{node}: {printable(error)}", node_name=node.name) from error
        results = result if isinstance(result, tuple) else (result,)
        return [_unshared(value, inputs) for value in results]

    def _control(self) -> RunControl:
        """Return the limits of one node: its own, and the time left to create the session."""
        loading = load_control()
        if loading is None:
            return RunControl(memory_limit_nbytes=self._limit)
        limit_nbytes = min(self._limit, loading.memory_limit_nbytes or self._limit)
        return RunControl(memory_limit_nbytes=limit_nbytes, timeout_s=loading.time_left_s)


def _unshared(value: Value, inputs: Sequence[Value]) -> Value:
    """Return an array that shares no memory with the inputs."""
    if isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, np.ndarray):
        shared = any(
            isinstance(array, np.ndarray) and np.may_share_memory(value, array) for array in inputs
        )
        return value.copy() if shared else value
    return value
