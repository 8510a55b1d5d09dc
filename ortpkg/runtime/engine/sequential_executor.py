"""Run a graph's nodes one after the other, in the order of the plan."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.foundations.host.signal_handlers import pass_on_handlers_error
from ortpkg.foundations.isolation.polling import polled
from ortpkg.runtime.engine.execution_frame import ExecutionFrame, NodeContext
from ortpkg.runtime.engine.execution_plan import ABSENT
from ortpkg.runtime.engine.instructions import Instruction
from ortpkg.runtime.engine.run_errors import run_error
from ortpkg.runtime.kernels.op_kernel import Tensor


def execute_sequentially(instructions: Sequence[Instruction], frame: ExecutionFrame) -> None:
    """Run ``instructions`` on ``frame``: prepare memory, run the kernel, release what died.

    Raises:
        RunError: RUNTIME_EXCEPTION with the node's name and the kernel's text.
        LimitExceededError, CancelledError: the run's limits, or its caller, ended it.
    """
    if frame.control.is_watched:
        with polled(frame.control.check):
            _execute(instructions, frame)
    else:
        _execute(instructions, frame)


def _execute(instructions: Sequence[Instruction], frame: ExecutionFrame) -> None:
    if not instructions:
        return
    values = frame.values
    control = frame.control
    is_watched = control.is_watched
    parts = frame.parts
    context = NodeContext(frame, instructions[0])
    for instruction in instructions:
        compute, inputs, outputs, releases, _, _, _, _, _ = instruction
        if is_watched:
            control.check()
        context.instruction = instruction
        context.arguments = arguments = [values[index] for index in inputs]
        handed: list[Tensor] = []
        context.handed = handed
        try:
            result = compute(context, *arguments)
            if (
                len(handed) == 1 == len(outputs)
                and result is handed[0]
                and outputs[0].value_index != ABSENT
                and (parts is None or not result.dtype.hasobject)
            ):
                values[outputs[0].value_index] = (
                    result  # a fast path of store() for nearly all kernels
                )
            else:
                frame.store(context, result)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plug-in may raise SystemExit or GeneratorExit
            pass_on_handlers_error(error)
            raise run_error(error, instruction) from error
        for index in releases:
            values[index] = None
        if frame.is_bookkeeping:
            frame.complete_node(instruction)
