"""The result of a schedule: a kernel with the tensors and sizes that it is called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from ortpkg.compiler.loop_ir.kernel import Kernel
from ortpkg.compiler.machine_code.program import Condition
from ortpkg.compiler.tensor_ir.elements import Tensor
from ortpkg.graph.shapes.expressions import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Packing of a constant for a kernel, done once at compile time.

    Attributes:
        source: the constant.
        layout: description of the layout with everything it depends on; equal sources with equal
            layouts are packed once.
        pack: function that returns the packed array, of the packed tensor's shape and type.
    """

    source: Tensor
    layout: str
    pack: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledKernel:
    """One step of a program.

    A tensor that is neither a constant nor an operation's output is temporary: an earlier kernel of
    the same schedule writes it.

    Attributes:
        kernel: the kernel to run.
        buffers: a tensor for each of its buffers, in their order.
        sizes: a size for each of its size parameters, in their order.
        tile_count: number of tiles. They are independent of each other and take some 10 to 500
            microseconds each, so that threads share them evenly and a run can be stopped.
        wave_tiles: number of tiles in one wave, which needs the output of the wave before; 0 if all
            tiles are independent.
        packed: buffers that are packed constants.
        conditions: conditions on sizes under which it runs, from
            :func:`~.kernel_versions.versions_by_size`.
    """

    kernel: Kernel
    buffers: tuple[Tensor, ...]
    sizes: tuple[Size, ...]
    tile_count: Size
    wave_tiles: Size = 0
    packed: Mapping[Tensor, Packing] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
