"""A kernel with the tensors and sizes that it is called with: what a schedule makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from ortpkg.codegen.loop_ir.kernel import Kernel
from ortpkg.codegen.tensor_ir.elements import Tensor
from ortpkg.machine_code.program import Condition
from ortpkg.shapes.expressions import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How a constant is laid out for a kernel, once, when it is compiled.

    Attributes:
        source: the constant.
        layout: its layout in words, with all that it depends on: equal sources with equal layouts
            are packed once.
        pack: makes the packed array, of the shape and kind of the tensor it is for.
    """

    source: Tensor
    layout: str
    pack: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledKernel:
    """One step of a program.

    A tensor that is no operation's output and no constant is a temporary one: an earlier kernel of
    the same schedule writes it.

    Attributes:
        kernel: what runs.
        buffers: a tensor for each of its buffers, in their order.
        sizes: a size for each of its size parameters, in their order.
        tile_count: how many tiles there are: independent of each other, each of some 10 to 500
            microseconds, so that threads share them evenly and a run can be stopped.
        wave_tiles: how many tiles one wave has, which needs what the wave before has written; 0:
            all tiles are independent.
        packed: those of its buffers that are constants in a layout of their own.
        conditions: for which sizes it runs; :func:`~.kernel_versions.versions_by_size` makes them.
    """

    kernel: Kernel
    buffers: tuple[Tensor, ...]
    sizes: tuple[Size, ...]
    tile_count: Size
    wave_tiles: Size = 0
    packed: Mapping[Tensor, Packing] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
