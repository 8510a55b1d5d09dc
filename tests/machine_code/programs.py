"""Programs for tests: one that is right, and any that are."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from hypothesis import strategies as st

from ortpkg.compiler.machine_code.program import (
    ArenaBuffer,
    BufferUse,
    Condition,
    ConstantSpec,
    IndexReport,
    Program,
    Space,
    Step,
    TensorSpec,
)
from ortpkg.graph.shapes.expressions import Size, TooLargeError, symbol
from ortpkg.graph.shapes.size_operations import broadcast, floor_divide, larger, remainder, smaller
from ortpkg.graph.types import ElementType

BATCH = symbol("batch")
FLOAT = ElementType.FLOAT


def small_program() -> Program:
    """``y = relu(x + w)`` for x of shape (batch, 8), by way of the arena."""
    x = BufferUse(space=Space.INPUT, index=0)
    between = BufferUse(space=Space.ARENA, index=0)
    return Program(
        target="linux-x86_64_v3",
        inputs=(TensorSpec(element_type=FLOAT, shape=(BATCH, 8), name="x"),),
        outputs=(TensorSpec(element_type=FLOAT, shape=(BATCH, 8), name="y"),),
        constants=(ConstantSpec(part="weight:w", nbytes=32),),
        arena=(ArenaBuffer(nbytes=BATCH * 32, first_step=0, last_step=1),),
        steps=(
            Step(
                kernel="add",
                buffers=(x, BufferUse(space=Space.CONSTANT, index=0), between),
                sizes=(BATCH,),
                tile_count=BATCH,
                name="Add_0",
            ),
            Step(
                kernel="relu",
                buffers=(between, BufferUse(space=Space.OUTPUT, index=0)),
                sizes=(BATCH * 8,),
            ),
        ),
        functions=MappingProxyType(
            {"add": 0, "relu": 64, "run": 128, "lead": 128, "dismiss": 128, "work": 192}
        ),
        code_nbytes=256,
        scratch_nbytes=4096,
    )


#: Names that would be read as something else if sizes were text.
_NAMES = st.sampled_from(["batch", "sequence length", "a + b", "floor(a/2)", "max", "é\n", "7"])
_SYMBOLS = st.builds(lambda name, hidden: symbol(name, is_anonymous=hidden), _NAMES, st.booleans())


def _made(make: Callable[[Size, Size], Size], left: Size, right: Size) -> Size:
    """What is made of both; one of them where that is too large to compute with."""
    try:
        return make(left, right)
    except TooLargeError:
        return left


def sizes_of(symbols: list[Size]) -> st.SearchStrategy[Size]:
    """Expressions over these symbols, numbers among them."""
    leaves = st.one_of(st.integers(0, 1 << 40), *([st.sampled_from(symbols)] if symbols else []))
    binary = st.sampled_from([
        lambda left, right: left + right,
        lambda left, right: left * right,
        lambda left, right: floor_divide(left, right + 1),
        lambda left, right: remainder(left, right + 1),
        larger,
        smaller,
        lambda left, right: left if isinstance(left, int) else broadcast(left, right),
    ])  # fmt: skip
    return st.recursive(
        leaves,
        lambda inner: st.builds(_made, binary, inner, inner),
        max_leaves=5,
    )


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Any program that is right."""
    symbols: list[Size] = list(draw(st.lists(_SYMBOLS, max_size=3, unique_by=str)))
    size = sizes_of(symbols).filter(lambda each: not isinstance(each, int) or each < 1 << 62)
    types = st.sampled_from([FLOAT, ElementType.INT64, ElementType.BFLOAT16, ElementType.BOOL])
    names = st.text(max_size=8)
    tensors = st.builds(
        lambda name, kind, shape: TensorSpec(name=name, element_type=kind, shape=tuple(shape)),
        names,
        types,
        st.lists(size, max_size=3),
    )
    inputs = [
        TensorSpec(element_type=FLOAT, shape=tuple(symbols)),
        *draw(st.lists(tensors, max_size=2)),
    ]
    outputs = draw(st.lists(tensors, max_size=2))
    constants = draw(
        st.lists(st.builds(ConstantSpec, part=names, nbytes=st.integers(0, 1 << 40)), max_size=2)
    )
    reports = draw(st.lists(st.builds(IndexReport, node=names, size=size), max_size=2))
    step_count = draw(st.integers(1, 4))
    spans = st.lists(st.integers(0, step_count - 1), min_size=2, max_size=2).map(sorted)
    arena = [
        ArenaBuffer(nbytes=draw(size), first_step=first, last_step=last)
        for first, last in draw(st.lists(spans, max_size=3))
    ]
    limits = st.integers(0, 1 << 40)
    conditions = st.builds(Condition, size=size, least=limits, most=st.none() | limits)
    written = [BufferUse(space=Space.OUTPUT, index=index) for index in range(len(outputs))]
    steps = []
    for number in range(step_count):
        there = [BufferUse(space=Space.INPUT, index=index) for index in range(len(inputs))]
        there += [BufferUse(space=Space.REPORT, index=index) for index in range(len(reports))]
        there += [
            BufferUse(space=Space.ARENA, index=index, offset=draw(size))
            for index, each in enumerate(arena)
            if each.first_step <= number <= each.last_step
        ]
        steps.append(
            Step(
                kernel=draw(st.sampled_from(["k0", "k1"])),
                buffers=(*written, *draw(st.lists(st.sampled_from(there), max_size=3))),
                sizes=tuple(draw(st.lists(st.one_of(size, st.integers(-9, 9)), max_size=3))),
                tile_count=draw(size),
                wave_tiles=draw(st.sampled_from([0, 0, 0, 1, 3])),
                chunk=draw(st.integers(1, 1 << 40)),
                cost_ps=draw(size),
                name=draw(names),
                conditions=tuple(draw(st.lists(conditions, max_size=2))),
            )
        )
    return Program(
        target="linux-aarch64",
        extras=tuple(draw(st.lists(st.sampled_from(["asimddp", "sve"]), max_size=2, unique=True))),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        constants=tuple(constants),
        arena=tuple(arena),
        reports=tuple(reports),
        steps=tuple(steps),
        functions=MappingProxyType(
            {"k0": 0, "k1": 16, "run": 32, "lead": 40, "work": 48, "dismiss": 56}
        ),
        code_nbytes=64,
        scratch_nbytes=draw(size),
        is_checked=draw(st.booleans()),
    )
