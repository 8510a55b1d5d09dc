"""Depthwise convolution: each output channel is summed over one channel of the source, its own."""

from __future__ import annotations

from math import prod

from ortpkg.codegen.loop_ir.kernel import Value
from ortpkg.codegen.schedules.channel_windows import ChannelWindows
from ortpkg.codegen.schedules.convolution_weights import PackedWeights
from ortpkg.codegen.schedules.machine_model import MachineModel
from ortpkg.codegen.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.codegen.tensor_ir.operations import Convolution


def depthwise_convolution(
    operation: Convolution, model: MachineModel, weights: PackedWeights
) -> ScheduledKernel:
    """The kernel; source and output are blocked alike."""
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
        self._weights = weights.read(self._maker)

    def _initial(self) -> Value:
        return self._builder.constant(0.0, self._sum_type)

    def _factor(self, block: Value, tap: Value) -> Value:
        b, lanes = self._builder, self._sum_type.lanes
        place = b.add(b.mul(block, prod(self._window.kernel)), tap)
        return b.load(self._weights, b.mul(place, lanes), lanes)

    def _combined(self, total: Value, element: Value, factor: Value | None) -> Value:
        assert factor is not None
        return self._builder.fma(element, factor, total)
