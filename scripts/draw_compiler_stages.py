"""Draws a model's way through the compiler: what the partition consists of after each stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import onnx

from ortpkg.compiler.tensor_ir.operations import Operation
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram, reads_of
from ortpkg.compiler.tensor_ir.tensor_text import operations_text
from ortpkg.foundations.drawing.palette import fill_kind
from ortpkg.foundations.drawing.svg import box, document, label, line, text

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y = 216, 66, 40, 26
_LEFT, _TOP = 24, 60
_LETTERS = 34
#: How far lines to a later reader go round the boxes between.
_DETOUR = 12
_KINDS = ("map", "convolution", "pool")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A node or an operation.

    Attributes:
        name: of the tensor that it makes.
        kind: what it is called.
        lines: what is told of it.
        reads: the names of what it reads.
    """

    name: str
    kind: str
    lines: tuple[str, ...]
    reads: tuple[str, ...]


def parts_of_nodes(graph: onnx.GraphProto) -> list[Part]:
    """The nodes of an ONNX graph, in order."""
    return [
        Part(
            name=node.output[0],
            kind=node.op_type,
            lines=(", ".join(node.input),),
            reads=tuple(node.input),
        )
        for node in graph.node
    ]


def parts_of_program(program: TensorProgram) -> list[Part]:
    """The operations of a tensor program, in order."""
    return [_part_of(each) for each in program.operations]


def _part_of(operation: Operation) -> Part:
    head, *rest = operations_text([operation]).splitlines()
    shape, kind = head.partition(": ")[2].split(" = ")
    told = [each.strip() for each in rest]
    formula = [each for each in told if each.startswith(("epilogue", "value", "function"))]
    reads = tuple(each.name for each in reads_of(operation))
    return Part(name=operation.output.name, kind=kind, lines=(shape, *formula[:1]), reads=reads)


def drawn(stages: Sequence[tuple[str, Sequence[Part]]]) -> str:
    """The picture (SVG), a column for each stage; names of stages to their parts."""
    most = max(len(parts) for _, parts in stages)
    elements = [
        element
        for column, (title, parts) in enumerate(stages)
        for element in _column(_LEFT + column * (_WIDTH + _GAP_X), title, parts)
    ]
    described = "; ".join(
        f"{title}: {', '.join(part.kind for part in parts)}" for title, parts in stages
    )
    return document(
        elements,
        width=_LEFT + len(stages) * (_WIDTH + _GAP_X),
        height=_TOP + most * (_HEIGHT + _GAP_Y),
        title="A small convolutional net after each stage of the compiler",
        description=described,
    )


def _column(x: float, title: str, parts: Sequence[Part]) -> Iterator[str]:
    yield text(x, _TOP - 28, title, kind="head")
    places = {part.name: number for number, part in enumerate(parts)}
    for number, part in enumerate(parts):
        for read in part.reads:
            if read in places:
                yield from _way(x, places[read], number)
    for number, part in enumerate(parts):
        y = _TOP + number * (_HEIGHT + _GAP_Y)
        colour = fill_kind(_KINDS.index(part.kind)) if part.kind in _KINDS else "panel"
        yield box(x, y, _WIDTH, _HEIGHT, kind=f"{colour} outlined", rx="4")
        yield text(x + 8, y + 18, part.kind, note=part.name)
        for row, words in enumerate(part.lines):
            yield label(x + 8, y + 36 + 18 * row, words, _LETTERS, kind="name")


def _way(x: float, maker: int, reader: int) -> Iterator[str]:
    """Lines from below a box to above a later one, round those between."""
    start = _TOP + maker * (_HEIGHT + _GAP_Y) + _HEIGHT
    end = _TOP + reader * (_HEIGHT + _GAP_Y)
    if reader == maker + 1:
        yield line(x + _WIDTH / 2, start, x + _WIDTH / 2, end, kind="axis")
        return
    side = x + _WIDTH + _DETOUR
    corners = [
        (x + _WIDTH - 24, start),
        (x + _WIDTH - 24, start + 9),
        (side, start + 9),
        (side, end - 9),
        (x + _WIDTH - 24, end - 9),
        (x + _WIDTH - 24, end),
    ]
    for (x1, y1), (x2, y2) in pairwise(corners):
        yield line(x1, y1, x2, y2, kind="axis")
