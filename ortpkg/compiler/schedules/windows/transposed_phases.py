"""Transposed convolutions as convolutions of each phase of the output.

If the source's elements are ``spread`` apart, with zeros between them, windows that are ``spread``
apart meet elements at the same taps. They form a *phase*, an ordinary convolution with only those
taps. One kernel computes neighbouring phases with equal windows, as if they were more blocks of
output channels.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from math import gcd, prod
from typing import Any

import numpy.typing as npt

from ortpkg.compiler.schedules.even_parts import parts_count
from ortpkg.compiler.schedules.scheduled_kernel import Packing
from ortpkg.compiler.schedules.windows.convolution_weights import (
    PackedWeights,
    WeightLayout,
    packing_kernel,
)
from ortpkg.compiler.schedules.windows.window_axes import WindowAxis
from ortpkg.compiler.tensor_ir.elements import Tensor
from ortpkg.compiler.tensor_ir.operations import Convolution
from ortpkg.graph.shapes.expressions import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisPhases:
    """Neighbouring phases of one axis with equal windows.

    Attributes:
        axis: source, windows and output size of each of them.
        spread: distance of a phase's positions in the output.
        first: position of the first phase.
        taps: for each phase, its taps of the whole window.
    """

    axis: WindowAxis
    spread: int
    first: int
    taps: tuple[range, ...]


#: Phases along each spatial axis; they are combined with each other.
Phases = tuple[AxisPhases, ...]


def phase_count(phases: Phases) -> int:
    """Return the number of combined phases."""
    return prod(len(axis_phases.taps) for axis_phases in phases)


def phases_of(
    operation: Convolution, source: Sequence[Size], output: Sequence[Size]
) -> list[Phases]:
    """Return the phases of a transposed convolution, those with equal windows together.

    Args:
        operation: a convolution with a spread.
        source, output: sizes along the spatial axes.
    """
    by_axis = []
    for axis, spread in enumerate(operation.spread or ()):
        before = operation.window.before[axis]
        if not isinstance(before, int):
            raise TypeError(f"{operation.output.name}: its padding is a formula")
        single = [
            _phase(
                first,
                spread,
                before,
                sizes=(source[axis], output[axis]),
                kernel=operation.window.kernel[axis],
                dilation=operation.window.dilations[axis],
            )
            for first in range(spread)
        ]
        by_axis.append(
            [_joined(list(alike)) for _, alike in groupby(single, lambda phase: phase.axis)]
        )
    return list(product(*by_axis))


def _phase(
    first: int,
    spread: int,
    before: int,
    *,
    sizes: tuple[Size, Size],
    kernel: int,
    dilation: int,
) -> AxisPhases:
    """Return the phase of windows at ``first`` plus multiples of ``spread``."""
    source, output = sizes
    step = spread // gcd(dilation, spread)
    meeting = [tap for tap in range(kernel) if (first + tap * dilation - before) % spread == 0]
    taps = range(meeting[0], kernel, step) if meeting else range(0)
    shift = (first + taps.start * dilation - before) // spread if meeting else 0
    count = parts_count(output - first, spread)
    inner = dilation // gcd(dilation, spread)
    reach = count - 1 + shift + max(len(taps) - 1, 0) * inner + 1
    return AxisPhases(
        axis=WindowAxis(
            source=source,
            output=count,
            kernel=len(taps),
            stride=1,
            dilation=inner,
            before=-shift,
            after=reach - source,
        ),
        spread=spread,
        first=first,
        taps=(taps,),
    )


def _joined(alike: Sequence[AxisPhases]) -> AxisPhases:
    first = alike[0]
    return AxisPhases(
        axis=first.axis,
        spread=first.spread,
        first=first.first,
        taps=tuple(taps for phase in alike for taps in phase.taps),
    )


def phase_weights(
    operation: Convolution, layout: WeightLayout, phases: Phases, constants: Collection[Tensor]
) -> PackedWeights:
    """Return the packed weights of all phases, one after another, each with its own taps.

    Constants are packed now; other weights by one kernel per phase in each run.
    """
    shape = (phase_count(phases) * layout.blocks, *layout.shape[1:])
    tensor = Tensor(f"phases of {operation.weights.name} in blocks", layout.scalar, shape)
    chosen = list(product(*(axis_phases.taps for axis_phases in phases)))
    if operation.weights not in constants:
        kernels = tuple(
            packing_kernel(
                operation.weights,
                tensor,
                layout,
                taps=taps,
                first_block=phase_number * layout.blocks,
            )
            for phase_number, taps in enumerate(chosen)
        )
        return PackedWeights(tensor=tensor, layout=layout, packing=None, kernels=kernels)

    def pack(weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
        # imported here, since only packing needs numpy
        import numpy as np

        parts = []
        for taps in chosen:
            slices = (
                slice(axis_phases.start, axis_phases.stop, axis_phases.step) for axis_phases in taps
            )
            parts.append(layout.pack(weights[(slice(None), slice(None), *slices)]))
        return np.concatenate(parts)

    packing = Packing(
        source=operation.weights,
        layout=f"taps {[axis_phases.taps for axis_phases in phases]} of convolution {layout}",
        pack=pack,
    )
    return PackedWeights(tensor=tensor, layout=layout, packing=packing, kernels=())
