"""Tiling of a step of a recurrent layer."""

from __future__ import annotations

from dataclasses import dataclass

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.tensor_ir.operations import Recurrence

#: Registers of a step that hold no sums: the state's element, weights, and one to spare.
_OTHER_REGISTERS = 4
#: Groups of sequences that one tile computes with the same panel from the cache.
_GROUPS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrenceTiling:
    """Sizes of the tiles of a step.

    Attributes:
        rows: number of sequences whose sums stay in registers.
        row_block: number of sequences in a tile.
        vectors: number of vectors of units in a panel.
        lanes: lanes of a vector.
    """

    rows: int
    row_block: int
    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        """Number of units in a panel."""
        return self.vectors * self.lanes


def recurrence_tiling(operation: Recurrence, model: MachineModel) -> RecurrenceTiling:
    """Return tiles with as many units and sequences as registers hold sums.

    A single sequence takes twice the units, since a sum waits for its last product.
    """
    lanes, gates = model.lanes(Scalar.F32), operation.cell.gate_count
    sums = (model.register_count - _OTHER_REGISTERS) // gates
    batch = operation.batch
    rows = min(batch, sums) if isinstance(batch, int) else sums
    vectors = 2 if rows <= 1 and sums >= 2 and operation.hidden > lanes else 1
    rows = max(1, rows)
    return RecurrenceTiling(
        rows=rows, row_block=rows * _GROUPS if rows > 1 else 1, vectors=vectors, lanes=lanes
    )
