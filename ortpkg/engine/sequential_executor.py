"""Runs a graph's nodes one after the other, in the order of the plan (requirement P02)."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.engine.execution_frame import ExecutionFrame, Instruction, NodeContext, run_error


def execute_sequentially(instructions: Sequence[Instruction], frame: ExecutionFrame) -> None:
    """Runs ``instructions`` on ``frame``: prepare memory, run the kernel, release what died (M18).

    Raises:
        RunError: RUNTIME_EXCEPTION with the node's name and the kernel's text (P16).
        LimitExceededError, CancelledError: the run's limits, or its caller, ended it.
    """
    if not instructions:
        return
    values = frame.values
    control = frame.control
    is_watched = control.is_watched
    context = NodeContext(frame, instructions[0])
    for instruction in instructions:
        compute, inputs, _outputs, releases, *_rest = instruction
        if is_watched:
            control.check()
        context.instruction = instruction
        context.arguments = arguments = [values[index] for index in inputs]
        context.handed = []
        try:
            frame.store(context, compute(context, *arguments))
        except Exception as error:
            raise run_error(error, instruction) from error
        for index in releases:
            values[index] = None
        if frame.is_bookkeeping:
            frame.complete_node(instruction)
