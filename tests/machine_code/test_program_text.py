"""A program is shown with its memory and its steps."""

from __future__ import annotations

from ortpkg.compiler.machine_code.program import (
    ArenaBuffer,
    BufferUse,
    ConstantSpec,
    Guard,
    IndexReport,
    Program,
    Space,
    Step,
    TensorSpec,
)
from ortpkg.compiler.machine_code.program_text import program_text
from ortpkg.graph.shapes.expressions import symbol
from ortpkg.graph.types import ElementType


def test_a_program_is_shown_with_its_memory_and_its_steps() -> None:
    n = symbol("n")
    tensor = TensorSpec(element_type=ElementType.FLOAT, shape=(n, 4), name="x\n\x1b")
    program = Program(
        target="linux-x86_64_v3",
        extras=("avx_vnni",),
        inputs=(tensor,),
        outputs=(tensor,),
        constants=(ConstantSpec(part="c0", nbytes=64),),
        arena=(ArenaBuffer(nbytes=n * 16, first_step=0, last_step=1),),
        steps=(
            Step(
                kernel="kernel_0",
                buffers=(
                    BufferUse(space=Space.INPUT, index=0),
                    BufferUse(space=Space.CONSTANT, index=0, offset=32),
                ),
                sizes=(n,),
                tile_count=n,
                name="first, " * 100,
            ),
        ),
        functions={},
        reports=(IndexReport(node="Gather\n", size=n),),
        guards=(Guard(axes=(n,), margin=n - 1),),
        scratch_nbytes=128,
        code_nbytes=4096,
        is_checked=True,
    )
    lines = program_text(program).splitlines()
    assert lines[:9] == [
        (
            "program for linux-x86_64_v3 with avx_vnni: 1 steps, 1 kernels, 4096 bytes of code;"
            " every access is checked"
        ),
        r"input 0: x\n\x1b float[n, 4]",
        r"output 0: x\n\x1b float[n, 4]",
        "constant 0: 64 bytes",
        "arena 0: 16*n bytes, from step 0 to 1",
        "scratch: 128 bytes for each thread",
        "guard: not below 0: n - 1",
        r"report 0: indices of Gather\n beyond an axis of size n",
        f"step 0: kernel_0(input 0, constant 0 + 32; n) for n tiles  # {('first, ' * 100)[:199]}…",
    ]
