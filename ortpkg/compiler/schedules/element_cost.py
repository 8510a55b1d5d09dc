"""Estimates the time of elements, so that tiles are neither too short nor too long.

The numbers are rough: cycles of a current CPU at some 3 GHz, with data in the second-level cache or
further.
"""

from __future__ import annotations

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.linear_reads import linear_index
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.tensor_ir.elements import (
    FUNCTION_ROWS,
    Call,
    Convert,
    Element,
    Function,
    Read,
    parts_of,
    scalar_of,
)

#: Target time of a tile: long compared with starting it, short compared with a user's wait.
TILE_NS = 30_000.0
_NS_PER_CYCLE = 0.35
_NS_PER_BYTE = 0.06
#: Cycles of an operation without vector instructions, per number.
_CYCLES_OF_ONE = 8.0


def element_ns(element: Element, model: MachineModel, vector_axis: int | None) -> float:
    """Return the nanoseconds for one element, among neighbours along the axis."""
    lanes = model.lanes(Scalar.F32)
    cycles = nbytes = 0.0
    for part in parts_of(element):
        match part:
            case Read(tensor, _):
                linear = linear_index(part)
                stride = linear.stride(vector_axis)
                if stride == 0 and not linear.values:
                    continue
                is_gather = stride != 1 or bool(linear.values)
                cycles += 2.0 if is_gather else 1.0 / lanes
                nbytes += tensor.scalar.nbytes
            case Call(function, operands):
                is_slow = not scalar_of(operands[-1]).is_float
                is_slow &= function in {Function.DIV, Function.REM}
                cycles += _CYCLES_OF_ONE if is_slow else FUNCTION_ROWS[function].cycles / lanes
            case Convert():
                cycles += 2.0 / lanes
            case _:
                pass
    return cycles * _NS_PER_CYCLE + (nbytes + scalar_of(element).nbytes) * _NS_PER_BYTE


def elements_in_tile(cost_ns: float) -> int:
    """Return the number of elements of this cost that fill a tile: a multiple of 256."""
    return max(1, round(TILE_NS / max(cost_ns, 0.01) / 256)) * 256
