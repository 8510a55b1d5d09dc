"""A program as text, for people: its memory, and its steps in the order in which they run.

Invisible characters in the model's names and symbols are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ortpkg.compiler.machine_code.program import BufferUse, Program, Step, TensorSpec
from ortpkg.foundations.drawing.svg import shortened, visible
from ortpkg.graph.shapes.expressions import Size

#: Most characters of names in a line; a fused step computes many nodes.
_LONGEST_NAMES = 200


def program_text(program: Program) -> str:
    """Return the program's text, with a line for each of its parts."""
    return "\n".join(map(visible, _lines(program))) + "\n"


def _lines(program: Program) -> Iterator[str]:
    extras = f" with {', '.join(program.extras)}" if program.extras else ""
    kernels = len({step.kernel for step in program.steps})
    checked = "; every access is checked" if program.is_checked else ""
    yield (
        f"program for {program.target}{extras}: {len(program.steps)} steps, {kernels} kernels,"
        f" {program.code_nbytes} bytes of code{checked}"
    )
    yield from _tensors("input", program.inputs)
    yield from _tensors("output", program.outputs)
    for index, constant in enumerate(program.constants):
        yield f"constant {index}: {constant.nbytes} bytes"
    for index, buffer in enumerate(program.arena):
        yield (
            f"arena {index}: {buffer.nbytes} bytes, from step {buffer.first_step} to"
            f" {buffer.last_step}"
        )
    if program.scratch_nbytes:
        yield f"scratch: {program.scratch_nbytes} bytes for each thread"
    for guard in program.guards:
        yield f"guard: not below 0: {guard.margin}"
    for index, report in enumerate(program.reports):
        node = shortened(report.node, _LONGEST_NAMES)
        yield f"report {index}: indices of {node} beyond an axis of size {report.size}"
    for index, step in enumerate(program.steps):
        yield _step(index, step)


def _tensors(kind: str, tensors: Sequence[TensorSpec]) -> Iterator[str]:
    for index, spec in enumerate(tensors):
        scalar = spec.element_type.name.lower()
        yield f"{kind} {index}: {shortened(spec.name, _LONGEST_NAMES)} {scalar}[{_all(spec.shape)}]"


def _step(index: int, step: Step) -> str:
    buffers = ", ".join(map(_buffer, step.buffers))
    sizes = f"; {_all(step.sizes)}" if step.sizes else ""
    waves = "" if step.wave_tiles == 0 else f" in waves of {step.wave_tiles}"
    nodes = f"  # {shortened(step.name, _LONGEST_NAMES)}" if step.name else ""
    tiles = f"{step.tile_count} tiles{waves}"
    return f"step {index}: {step.kernel}({buffers}{sizes}) for {tiles}{nodes}"


def _buffer(use: BufferUse) -> str:
    offset = f" + {use.offset}" if use.offset != 0 else ""
    return f"{use.space.value} {use.index}{offset}"


def _all(sizes: Sequence[Size]) -> str:
    return ", ".join(map(str, sizes))
