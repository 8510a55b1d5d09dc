"""Depthwise convolution: each output channel is summed over one source channel, its own.

Bytes, minus their zero points, are multiplied and summed as f32, which is exact for windows of up
to 258 taps.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ortpkg.compiler.loop_ir.kernel import Value
from ortpkg.compiler.loop_ir.kernel_builder import Operand
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.element_values import ElementValues
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.schedules.windows.channel_windows import ChannelWindows
from ortpkg.compiler.schedules.windows.convolution_weights import PackedWeights
from ortpkg.compiler.schedules.windows.window_axes import ColumnRun
from ortpkg.compiler.tensor_ir.elements import Element, Number
from ortpkg.compiler.tensor_ir.operations import Convolution


def depthwise_convolution(
    operation: Convolution, model: MachineModel, weights: PackedWeights
) -> ScheduledKernel:
    """Return the kernel; source and output are blocked alike."""
    return _DepthwiseConvolution(operation, model, weights).scheduled()


class _DepthwiseConvolution(ChannelWindows):
    def __init__(self, operation: Convolution, model: MachineModel, weights: PackedWeights) -> None:
        super().__init__(
            "depthwise_convolution",
            model,
            source=operation.source,
            output=operation.output,
            window=operation.window,
            epilogue=operation.epilogue,
            sum_scalar=weights.tensor.scalar,
            channels=weights.layout.channels,
        )
        self._operation, self._channels = operation, weights.layout.channels
        self._weights = weights.read(self._maker)
        self._values = ElementValues(self._maker, model)

    def _initial(self) -> Value:
        return self._builder.constant(0.0, self._sum_type)

    def _factor(self, block: Value, tap: Value) -> Value:
        b, lanes = self._builder, self._sum_type.lanes
        row = b.add(b.mul(block, prod(self._window.kernel)), tap)
        weights = b.load(self._weights, b.mul(row, lanes), lanes)
        return self._less_zero(weights, self._operation.weights_zero, block)

    def _combined(self, total: Value, element: Value, factor: Value | None) -> Value:
        assert factor is not None
        centred = self._less_zero(element, self._operation.source_zero, self._builder.index(0))
        return self._builder.fma(centred, factor, total)

    def _finished(self, total: Value, _run: ColumnRun, _column: int, _at: Sequence[Value]) -> Value:
        is_of_bytes = self._operation.source.scalar in {Scalar.U8, Scalar.I8}
        return self._builder.cast(total, Scalar.I32) if is_of_bytes else total

    def _less_zero(self, value: Value, zero: Element | None, block: Value) -> Value:
        """Return numbers of the channels of a block, minus their zero point."""
        if zero is None or (isinstance(zero, Number) and zero.number == 0):
            return value
        b, lanes, rank = self._builder, self._sum_type.lanes, len(self._window.kernel)
        axes: list[Operand] = [0, block, *([0] * rank), 0]
        count = b.least(b.sub(self._channels, b.mul(block, lanes)), lanes)
        zeros = self._values.value_of(zero, axes, vector_axis=2 + rank, lanes=lanes, count=count)
        return b.sub(value, b.cast(zeros, self._sum_type.scalar))
