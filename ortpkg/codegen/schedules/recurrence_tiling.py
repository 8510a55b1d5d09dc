"""How much of a step of a recurrent layer is done at once."""

from __future__ import annotations

from dataclasses import dataclass

from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.schedules.machine_model import MachineModel
from ortpkg.codegen.tensor_ir.operations import Recurrence

#: Registers of a step that hold no sums: the state's number, weights, and one to spare.
_OTHER_REGISTERS = 4
#: Blocks of sequences in registers that one tile takes, with the same panel from the cache.
_GROUPS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrenceTiling:
    """How much of a step is done at once.

    Attributes:
        rows: sequences of which the sums stay in registers.
        row_block: sequences of a tile.
        vectors: how many vectors of units a panel has.
        lanes: of a vector.
    """

    rows: int
    row_block: int
    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        """Units of a panel."""
        return self.vectors * self.lanes


def recurrence_tiling(operation: Recurrence, model: MachineModel) -> RecurrenceTiling:
    """How many units and sequences a step takes at once: as many as registers hold sums of.

    One sequence alone takes twice the units, since a sum waits for its last product.
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
