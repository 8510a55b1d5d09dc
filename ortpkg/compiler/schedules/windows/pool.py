"""Schedules poolings, whose source and output are both blocked, or both plain."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ortpkg.compiler.loop_ir.kernel import Op, Value
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.schedules.windows.channel_windows import ChannelWindows
from ortpkg.compiler.schedules.windows.window_axes import (
    ColumnRun,
    WindowAxis,
    tap_count_with_padding,
    taps_inside,
)
from ortpkg.compiler.tensor_ir.elements import Tensor
from ortpkg.compiler.tensor_ir.operations import Pool, PoolFunction


def schedule_pool(
    operation: Pool, model: MachineModel, _constants: Collection[Tensor]
) -> list[ScheduledKernel]:
    """Return the kernel of a pooling: MAX of any numbers, averages of floats."""
    return [_Pool(operation, model).scheduled()]


class _Pool(ChannelWindows):
    def __init__(self, operation: Pool, model: MachineModel) -> None:
        scalar = operation.source.scalar
        super().__init__(
            "pool",
            model,
            source=operation.source,
            output=operation.output,
            window=operation.window,
            epilogue=operation.epilogue,
            sum_scalar=Scalar.F32 if scalar in {Scalar.F16, Scalar.BF16} else scalar,
        )
        self._function = operation.function

    def _initial(self) -> Value:
        least = _least(self._sum_type.scalar) if self._function is PoolFunction.MAX else 0
        return self._builder.constant(least, self._sum_type)

    def _factor(self, _block: Value, _tap: Value) -> None:
        return None

    def _combined(self, total: Value, element: Value, _factor: Value | None) -> Value:
        op = Op.MAX if self._function is PoolFunction.MAX else Op.ADD
        return self._builder.compute(op, total, element)

    def _finished(self, total: Value, run: ColumnRun, column: int, at: Sequence[Value]) -> Value:
        if self._function is PoolFunction.MAX:
            return total
        b = self._builder
        count = self._column_taps(run, column, at[-1])
        for axis, position in zip(self._axes[:-1], at[:-1], strict=True):
            count = b.mul(count, self._taps(axis, position))
        if self._function is PoolFunction.AVERAGE and any(axis.is_padded for axis in self._axes):
            count = b.most(count, 1)  # the mean of padding alone is 0
        return b.div(total, b.splat(b.cast(count, total.type.scalar), total.type.lanes))

    def _column_taps(self, run: ColumnRun, column: int, first: Value) -> Value:
        """Return the number of taps of the last axis that count for a column of a group."""
        b, axis = self._builder, self._axes[-1]
        if self._function is PoolFunction.AVERAGE and run.taps is not None:
            return b.index(sum(tap.first <= column < tap.stop for tap in run.taps))
        return self._taps(axis, b.add(first, column))

    def _taps(self, axis: WindowAxis, position: Value) -> Value:
        """Return the number of taps of an axis that count for a window at a position."""
        if self._function is PoolFunction.AVERAGE_PADDED:
            return tap_count_with_padding(self._maker, axis, position)
        first, stop = taps_inside(self._maker, axis, position)
        return self._builder.sub(stop, first)


def _least(scalar: Scalar) -> int | float:
    """Return the least number of a scalar type."""
    if scalar.is_float:
        return float("-inf")
    return -(1 << 8 * scalar.nbytes - 1) if scalar.is_integer and not scalar.is_unsigned else 0
