"""Run nodes in the plan's order; wait for asynchronous ones only when a result is needed.

A *strict* node waits for all its inputs. A *non-strict* one is called at once: an input that is
still being computed is passed as a :class:`PendingValue`, for which the node waits when it needs
it. The plan keeps the inputs and outputs of an asynchronous node until the step that waits for it
(``execution_plan.with_joins``), so that nothing overwrites them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.foundations.host.signal_handlers import pass_on_handlers_error
from ortpkg.runtime.engine.execution_frame import ExecutionFrame, NodeContext
from ortpkg.runtime.engine.execution_plan import ABSENT, ExecutionPlan
from ortpkg.runtime.engine.instructions import Instruction
from ortpkg.runtime.engine.pending import Pending, PendingValue, begun, finished, settle
from ortpkg.runtime.engine.run_errors import run_error


class AsyncExecutor:
    """Executor of one plan's instructions; runs may overlap in time."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self._waits_for = tuple(step.waits_for for step in plan.steps)

    def __call__(self, instructions: Sequence[Instruction], frame: ExecutionFrame) -> None:
        """Run ``instructions`` on ``frame``.

        No node is under way any more when it returns or raises.

        Raises:
            RunError, LimitExceededError, CancelledError: as in sequential execution.
        """
        under_way: dict[int, tuple[Pending, NodeContext]] = {}
        try:
            for number, instruction in enumerate(instructions):
                if frame.control.is_watched:
                    frame.control.check()
                for earlier in self._waits_for[number]:
                    _join(under_way, earlier, frame)
                _start(under_way, number, instruction, frame)
                for index in instruction.releases:
                    frame.values[index] = None
                if frame.is_bookkeeping:
                    frame.complete_node(instruction)
            for number in list(under_way):
                _join(under_way, number, frame)
        finally:
            settle(pending.future for pending, _ in under_way.values())


def _start(
    under_way: dict[int, tuple[Pending, NodeContext]],
    number: int,
    instruction: Instruction,
    frame: ExecutionFrame,
) -> None:
    """Call one node; store its result, or note that it is under way."""
    context = NodeContext(frame, instruction)
    context.arguments = [frame.values[index] for index in instruction.inputs]
    try:
        result = begun(instruction.compute(context, *context.arguments))
        if not isinstance(result, Pending):
            frame.store(context, result)
            return
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plug-in may raise SystemExit or GeneratorExit
        pass_on_handlers_error(error)
        raise run_error(error, instruction) from error
    under_way[number] = (result, context)
    for position, slot in enumerate(instruction.outputs):
        if slot.value_index != ABSENT:
            frame.values[slot.value_index] = PendingValue(result, position)


def _join(
    under_way: dict[int, tuple[Pending, NodeContext]], number: int, frame: ExecutionFrame
) -> None:
    """Wait for one node, if it is still under way, and store its result."""
    if number not in under_way:
        return
    pending, context = under_way[number]
    try:
        frame.store(context, finished(pending, context))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plug-in may raise SystemExit or GeneratorExit
        pass_on_handlers_error(error)
        raise run_error(error, context.instruction) from error
    del under_way[number]
