from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings

from ortpkg.compiler.machine_code.program import (
    ArenaBuffer,
    BufferUse,
    Condition,
    IndexReport,
    Program,
    Space,
    TensorSpec,
)
from ortpkg.compiler.machine_code.program_checks import verify_program
from ortpkg.foundations.errors import EpContextError
from ortpkg.graph.shapes.expressions import symbol
from ortpkg.graph.types import ElementType
from tests.machine_code.programs import BATCH, programs, small_program

PROGRAM = small_program()
FIRST, SECOND = PROGRAM.steps
OUTSIDE = symbol("other")


def with_step(**changes: Any) -> Program:
    return replace(PROGRAM, steps=(replace(FIRST, **changes), SECOND))


def with_use(space: Space, index: int, offset: Any = 0) -> Program:
    use = BufferUse(space=space, index=index, offset=offset)
    return with_step(buffers=(*FIRST.buffers, use))


@settings(max_examples=25, deadline=None)
@given(program=programs())
def test_what_is_right_is_let_through(program: Program) -> None:
    verify_program(program)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (replace(PROGRAM, abi_version=2), "code is called as version 2 says, this version of ortpkg calls as version 1"),
        (replace(PROGRAM, code_nbytes=0), "its code has 0 bytes, not 1 to"),
        (replace(PROGRAM, code_nbytes=1 << 40), "its code has 1099511627776 bytes, not 1 to"),
        (replace(PROGRAM, code_nbytes=192), "function 'work' begins at byte 192 of code of 192 bytes"),
        (replace(PROGRAM, functions=MappingProxyType({"run": 0, "lead": 0, "add": 0, "relu": 0})), "it has no function 'work'"),
        (replace(PROGRAM, functions={**PROGRAM.functions, "x": -1}), "function 'x' begins at byte -1"),
        (replace(PROGRAM, target=""), "the name '' has not 1 to 1024 characters"),
        (replace(PROGRAM, extras=("x",) * 65), "it has 65 features beyond those of its target, and may have 64"),
        (replace(PROGRAM, scratch_nbytes=-1), "the scratch memory is -1, not a size from 0"),
        (replace(PROGRAM, scratch_nbytes=OUTSIDE), "the scratch memory needs the size 'other', which no input's shape gives"),
        (replace(PROGRAM, inputs=(TensorSpec(element_type=ElementType.STRING, shape=()),)), "input 0 has elements of type string, which no code reads"),
        (replace(PROGRAM, inputs=(TensorSpec(element_type=ElementType.FLOAT, shape=(1,) * 65),)), "it has 65 dimensions in input 0, and may have 64"),
        (replace(PROGRAM, inputs=(TensorSpec(element_type=ElementType.FLOAT, shape=(BATCH * 2,)),)), "the shape of input 0 needs the size 'batch', which no input's shape gives"),
        (replace(PROGRAM, outputs=(TensorSpec(element_type=ElementType.FLOAT, shape=(-1,)),)), "the shape of output 0 is -1, not a size from 0"),
        (replace(PROGRAM, outputs=PROGRAM.outputs * 2), "no step uses output 1, which would be what the memory held before"),
        (replace(PROGRAM, constants=(replace(PROGRAM.constants[0], nbytes=1 << 63),)), "the length of constant 0 is 9223372036854775808"),
        (replace(PROGRAM, arena=(ArenaBuffer(nbytes=8, first_step=1, last_step=1),)), "step 0 uses arena 0, whose content counts from step 1 to step 1 alone"),
        (replace(PROGRAM, arena=(ArenaBuffer(nbytes=8, first_step=0, last_step=2),)), "arena buffer 0 is used from step 0 to step 2 of 2 steps"),
        (replace(PROGRAM, arena=(ArenaBuffer(nbytes=8, first_step=1, last_step=0),)), "arena buffer 0 is used from step 1 to step 0"),
        (with_step(kernel="missing"), "step 0 calls 'missing', which is no kernel of its code"),
        (with_step(kernel="run"), "step 0 calls 'run', which is no kernel of its code"),
        (with_step(chunk=0), "step 0 has chunks of 0 tiles, not of 1 or more"),
        (with_step(tile_count=-1), "the tile count of step 0 is -1"),
        (with_step(tile_count=OUTSIDE), "the tile count of step 0 needs the size 'other'"),
        (with_step(sizes=(1 << 63,)), "step 0 has the size 9223372036854775808, which takes more than 64 bits"),
        (with_step(sizes=(OUTSIDE,)), "the sizes of step 0 needs the size 'other'"),
        (with_step(sizes=(0,) * 1025), "it has 1025 sizes in step 0, and may have 1024"),
        (with_step(conditions=(Condition(size=1),) * 17), "it has 17 conditions in step 0, and may have 16"),
        (with_step(conditions=(Condition(size=OUTSIDE),)), "the condition of step 0 needs the size 'other'"),
        (with_step(conditions=(Condition(size=BATCH, most=-1),)), "the condition of step 0 is -1, not a size"),
        (with_step(cost_ps=-1), "the cost of step 0 is -1, not a size"),
        (with_step(cost_ps=OUTSIDE), "the cost of step 0 needs the size 'other'"),
        (with_step(name="n" * 70_000), "the name of step 0 has more than 65536 characters"),
        (replace(PROGRAM, reports=(IndexReport(node="n", size=-1),)), "the axis of report 0 is -1, not a size"),
        (replace(PROGRAM, reports=(IndexReport(node="n", size=OUTSIDE),)), "the axis of report 0 needs the size 'other'"),
        (replace(PROGRAM, reports=(IndexReport(node="n" * 70_000, size=1),)), "the node of report 0 has more than 65536 characters"),
        (with_use(Space.REPORT, 0), "step 0 uses report 0 of 0"),
        (replace(with_use(Space.REPORT, 0, 8), reports=(IndexReport(node="n", size=1),)), "step 0 uses report 0 from byte 8 on, and not whole"),
        (with_use(Space.CONSTANT, 1), "step 0 uses constant 1 of 1"),
        (with_use(Space.INPUT, -1), "step 0 uses input -1 of 1"),
        (with_use(Space.INPUT, 0, offset=-4), "the offset of a buffer of step 0 is -4"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_its_place(program: Program, message: str) -> None:
    with pytest.raises(EpContextError) as caught:
        verify_program(program)
    assert str(caught.value).startswith("the program of the machine code is wrong: ")
    assert message in str(caught.value)
