"""Programs whose kernels are written by hand, ready to be run on this machine, and their context."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ortpkg.compiler.machine_code.program import (
    ArenaBuffer,
    BufferUse,
    ConstantSpec,
    Program,
    Space,
    Step,
    TensorSpec,
)
from ortpkg.compiler.machine_code.program_checks import verify_program
from ortpkg.foundations.errors import LimitExceededError
from ortpkg.graph.shapes.expressions import Size, symbol
from ortpkg.graph.types import ElementType
from tests.machine_code.native_code import ADD_ROW, COUNT, FAIL, SLOW, native_code, this_target

CODE = native_code(ADD_ROW, COUNT, SLOW, FAIL)
ROWS, COLUMNS = symbol("rows"), symbol("columns")
FLOAT = ElementType.FLOAT
X, Y, W = (BufferUse(space=each, index=0) for each in (Space.INPUT, Space.OUTPUT, Space.CONSTANT))
WEIGHTS = np.arange(4, dtype=np.float32)


class Context:
    """Of a run: without limits, unless a test sets some."""

    def __init__(
        self,
        *,
        most_nbytes: int | None = None,
        check_cancelled: Callable[[], None] | None = None,
    ) -> None:
        self.asked: list[int] = []
        self.is_memory_limited = most_nbytes is not None
        self.is_watched = check_cancelled is not None
        self._most_nbytes = most_nbytes
        self.check_cancelled = check_cancelled or (lambda: None)

    def check_allocation(self, nbytes: int) -> None:
        self.asked.append(nbytes)
        if self._most_nbytes is not None and nbytes > self._most_nbytes:
            raise LimitExceededError(f"{nbytes} bytes are too many", limit="memory")


def between(index: int) -> BufferUse:
    return BufferUse(space=Space.ARENA, index=index)


def program(
    steps: tuple[Step, ...],
    *,
    inputs: tuple[tuple[Size, ...], ...] = ((ROWS, 4),),
    outputs: tuple[tuple[Size, ...], ...] = ((ROWS, 4),),
    arena: tuple[ArenaBuffer, ...] = (),
    constants: tuple[ConstantSpec, ...] = (ConstantSpec(part="w", nbytes=16),),
    scratch_nbytes: Size = 64,
) -> Program:
    made = Program(
        target=this_target().name,
        inputs=tuple(
            TensorSpec(element_type=FLOAT, shape=shape, name=f"x{n}")
            for n, shape in enumerate(inputs)
        ),
        outputs=tuple(
            TensorSpec(element_type=FLOAT, shape=shape, name=f"y{n}")
            for n, shape in enumerate(outputs)
        ),
        constants=constants,
        arena=arena,
        steps=steps,
        functions=CODE.functions,
        code_nbytes=len(CODE.data),
        scratch_nbytes=scratch_nbytes,
    )
    verify_program(made)
    return made


def chain(length: int, *, rows: Size = ROWS, chunk: int = 2) -> Program:
    """``y = x + w + w + ...``, with a buffer of the arena between two steps."""
    places = [X, *(between(index) for index in range(length - 1)), Y]
    return program(
        tuple(
            Step(
                kernel="add_row",
                buffers=(places[index], W, places[index + 1]),
                sizes=(4,),
                tile_count=rows,
                chunk=chunk,
                name=f"Add_{index}",
            )
            for index in range(length)
        ),
        arena=tuple(
            ArenaBuffer(nbytes=rows * 16, first_step=index, last_step=index + 1)
            for index in range(length - 1)
        ),
    )


def rows_of(count: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(count).random((count, 4), np.float32)
