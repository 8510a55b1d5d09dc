"""Runs a graph that is one fused node, from the caller's arrays to the caller's arrays.

What a small model costs inside a native library is less than a run of the engine around it; with
nothing to plan, all that is left of that is what protects the caller: the gate, limits and
cancelling, whose memory an output is, errors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortpkg.engine.allocation_planner import AllocKind
from ortpkg.engine.executable_graph import ExecutableGraph
from ortpkg.engine.execution_frame import (
    LEAST_COUNTED_NBYTES,
    ExecutionFrame,
    NodeContext,
    run_error,
)
from ortpkg.engine.run_control import RunControl
from ortpkg.kernels.op_kernel import Value


class DirectRun:
    """One graph for which :func:`direct_run_of` is not None. Runs may overlap in time."""

    def __init__(
        self, graph: ExecutableGraph, inputs: Sequence[int], outputs: Sequence[int]
    ) -> None:
        """``inputs``: the graph's behind each argument of the node.

        ``outputs``: the node's behind each output.
        """
        self._graph = graph
        self._instruction = graph.instructions[0]
        self._compute = self._instruction.compute
        self._entry = graph.entry
        self._inputs = (
            None if list(inputs) == list(range(len(graph.plan.inputs))) else tuple(inputs)
        )
        self._outputs = tuple(outputs)

    def run(
        self, feeds: Sequence[Value], control: RunControl, positions: Sequence[int] | None
    ) -> list[Value] | None:
        """What :meth:`ExecutableGraph.run` returns; None, and nothing done, where an input is left
        to its default.

        ``positions``: of the graph outputs that are asked for; None for all. Errors are those of
            that method.
        """
        arguments = list(feeds) if self._inputs is None else [feeds[at] for at in self._inputs]
        for argument in arguments:
            if argument is None:
                return None
        control.check()
        with self._entry:
            frame = ExecutionFrame(self._graph, self._graph.initial_values(), control)
            context = NodeContext(frame, self._instruction)
            context.arguments = arguments
            try:
                results = self._compute(context, *arguments)
                if not context.handed and _are_new(results, arguments):
                    for result in results:
                        if result.nbytes >= LEAST_COUNTED_NBYTES:
                            control.charge(result.nbytes)
                else:
                    frame.store(context, results)
                    results = [frame.values[slot.value_index] for slot in self._instruction.outputs]
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a plug-in may raise what ends processes or generators
                raise run_error(error, self._instruction) from error
        made = [results[at] for at in self._outputs]
        if positions is None:
            return made
        return [
            made[at] if at not in positions[:number] else made[at].copy()
            for number, at in enumerate(positions)
        ]


def _are_new(results: Sequence[Value], arguments: Sequence[Value]) -> bool:
    """Whether all are arrays that can be given away as they are: writable, and no memory of an
    argument.
    """
    for result in results:
        if (
            type(result) is not np.ndarray
            or result.dtype.kind in "US"
            or not result.flags.writeable
        ):
            return False
        for argument in arguments:
            if type(argument) is not np.ndarray or result is argument:
                return False
            if result.base is not None and np.may_share_memory(result, argument):
                return False
    return True


def direct_run_of(graph: ExecutableGraph) -> DirectRun | None:
    """How to run ``graph`` without its plans; None unless one node takes the graph's inputs and
    gives its outputs.
    """
    plan = graph.plan
    if len(graph.instructions) != 1 or graph.subgraphs or plan.outer_values:
        return None
    instruction = graph.instructions[0]
    places = {index: at for at, index in enumerate(plan.inputs)}
    made = {
        slot.value_index: at
        for at, slot in enumerate(instruction.outputs)
        if slot.kind is AllocKind.ALLOCATE_OUTPUT and not slot.is_alias
    }
    if (
        not instruction.inputs
        or len(made) < len(instruction.outputs)
        or len(set(plan.outputs)) < len(plan.outputs)
    ):
        return None
    if not all(index in places for index in instruction.inputs) or not all(
        index in made for index in plan.outputs
    ):
        return None
    return DirectRun(
        graph,
        [places[index] for index in instruction.inputs],
        [made[index] for index in plan.outputs],
    )
