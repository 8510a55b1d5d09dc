from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ortpkg.compiler.machine_code.executor_abi import (
    LAUNCH_WORDS,
    STATUS_WORDS,
    STEP_WORDS,
    LaunchWord,
)
from ortpkg.compiler.machine_code.launch_plan import LaunchPlan, LaunchPlanner, bind_symbols
from ortpkg.compiler.machine_code.program import (
    ALIGNMENT,
    ArenaBuffer,
    BufferUse,
    Condition,
    Program,
    Space,
    TensorSpec,
)
from ortpkg.compiler.machine_code.program_checks import input_symbols
from ortpkg.foundations.errors import LimitExceededError, RunError
from ortpkg.graph.shapes.expressions import evaluate, symbol
from ortpkg.graph.types import numpy_dtype
from tests.machine_code.programs import BATCH, FLOAT, programs, small_program

Shapes = tuple[tuple[int, ...], ...]


def shapes_of(program: Program, symbols: dict[str, int]) -> Shapes:
    return tuple(tuple(evaluate(size, symbols) for size in spec.shape) for spec in program.inputs)


def holds(condition: Condition, symbols: dict[str, int]) -> bool:
    most = math.inf if condition.most is None else condition.most
    return condition.least <= evaluate(condition.size, symbols) <= most


def verify_plan(program: Program, plan: LaunchPlan, symbols: dict[str, int], words: int) -> None:
    """Holds each word against what the program says, one by one."""
    template = plan.template
    shapes = shapes_of(program, symbols)
    nbytes = {
        (space, index): math.prod(shape) * numpy_dtype(spec.element_type).itemsize
        for space, specs, found in (
            (Space.INPUT, program.inputs, shapes),
            (Space.OUTPUT, program.outputs, [shape for shape, _ in plan.outputs]),
        )
        for index, (spec, shape) in enumerate(zip(specs, found, strict=True))
    }
    nbytes |= {(Space.CONSTANT, n): each.nbytes for n, each in enumerate(program.constants)}
    nbytes |= {
        (Space.ARENA, n): evaluate(each.nbytes, symbols) for n, each in enumerate(program.arena)
    }
    nbytes |= {(Space.REPORT, n): 8 for n in range(len(program.reports))}
    arena = dict(zip(plan.arena_words.tolist(), plan.arena_offsets.tolist(), strict=True))
    outer = {use.word: use for use in (*plan.input_uses, *plan.output_uses)}
    place = LAUNCH_WORDS + STEP_WORDS * len(program.steps)
    for number, step in enumerate(program.steps):
        is_there = all(holds(each, symbols) for each in step.conditions)
        row = template[LAUNCH_WORDS + STEP_WORDS * number :]
        tiles = evaluate(step.tile_count, symbols) if is_there else 0
        assert row[3] == tiles
        wave = evaluate(step.wave_tiles, symbols)
        assert row[6] == wave
        assert wave == 0 or tiles % wave == 0
        least_chunk = min(step.chunk, max(tiles, 1)) if wave == 0 else 1
        assert least_chunk <= row[4] <= max(tiles, 1)
        for word, use in enumerate(step.buffers, start=place):
            offset = evaluate(use.offset, symbols)
            if use.space is Space.ARENA and is_there:
                left = nbytes[use.space, use.index] - offset
                assert 0 <= arena[word] <= arena[word] + left <= plan.scratch_offset
            elif use.space in {Space.INPUT, Space.OUTPUT}:
                assert (outer[word].which, outer[word].offset) == (use.index, offset)
        place += len(step.buffers)
        numbers = [evaluate(size, symbols) for size in step.sizes]
        numbers += [
            nbytes[use.space, use.index] - evaluate(use.offset, symbols) if is_there else 0
            for use in step.buffers
        ]
        assert template[place : place + len(numbers)].tolist() == numbers
        assert min(numbers[len(step.sizes) :], default=0) >= 0
        place += len(numbers)
    assert place <= words - STATUS_WORDS - len(program.reports)
    stride = int(template[LaunchWord.SCRATCH_STRIDE])
    assert stride % ALIGNMENT == 0
    assert plan.block_nbytes == plan.scratch_offset + 2 * stride
    assert stride >= evaluate(program.scratch_nbytes, symbols)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(program=programs(), data=st.data())
def test_any_program_has_a_right_plan_for_any_shape_or_a_typed_error(
    program: Program, data: st.DataObject
) -> None:
    planner = LaunchPlanner(program, thread_count=2)
    sizes = st.one_of(st.integers(0, 9), st.integers(0, 1 << 40))
    for _ in range(3):
        symbols = {name: data.draw(sizes) for name in sorted(input_symbols(program.inputs))}
        try:
            shapes = shapes_of(program, symbols)
        except (ArithmeticError, ValueError):
            assume(False)
        assume(max((number for shape in shapes for number in shape), default=0) < 1 << 63)
        try:
            plan = planner.plan(shapes, planner.words.template)
        except (RunError, LimitExceededError):
            continue
        verify_plan(program, plan, symbols, planner.words.count)


def test_a_plan_has_what_follows_from_the_shapes() -> None:
    program = small_program()
    planner = LaunchPlanner(program, thread_count=2)
    plan = planner.plan(((3, 8),), planner.words.template)
    assert plan.outputs == (((3, 8), np.dtype(np.float32)),)
    assert plan.output_nbytes == 96
    assert plan.block_nbytes == 128 + 2 * 4096
    assert plan.is_shared
    assert not planner.plan(((1, 8),), planner.words.template).is_shared
    verify_plan(program, plan, {"batch": 3}, planner.words.count)


def test_a_step_whose_condition_does_not_hold_is_left_out_with_its_memory() -> None:
    program = small_program()
    few, rest = (Condition(size=BATCH, most=4), Condition(size=BATCH, least=5))
    add, relu = program.steps
    program = replace(
        program,
        arena=(*program.arena, ArenaBuffer(nbytes=BATCH * 640, first_step=1, last_step=1)),
        steps=(
            add,
            replace(
                relu,
                buffers=(*relu.buffers, BufferUse(space=Space.ARENA, index=1)),
                conditions=(few,),
            ),
            replace(relu, conditions=(rest,)),
        ),
    )
    planner = LaunchPlanner(program, thread_count=2)
    tiles = planner.words.tile_words
    few_rows, many_rows = (planner.plan(((n, 8),), planner.words.template) for n in (4, 5))
    assert few_rows.template[tiles].tolist() == [4, 1, 0]
    assert many_rows.template[tiles].tolist() == [5, 0, 1]
    assert few_rows.scratch_offset == 4 * (32 + 640)
    assert many_rows.scratch_offset == 192


def test_inputs_declared_alike_must_be_alike() -> None:
    program = small_program()
    alike = TensorSpec(element_type=FLOAT, shape=program.inputs[0].shape, name="other")
    planner = LaunchPlanner(replace(program, inputs=(*program.inputs, alike)), thread_count=1)
    plan = planner.plan(((3, 8), (3, 8)), planner.words.template)
    assert plan.outputs == (((3, 8), np.dtype(np.float32)),)
    with pytest.raises(RunError, match=r"input 1 \('other'\) has the shape \[4, 8\]"):
        planner.plan(((3, 8), (4, 8)), planner.words.template)


@pytest.mark.parametrize(
    ("shapes", "bound"),
    [(((2, 3), (3,)), {"a": 2, "batch": 3}), (((0, 0), (0,)), {"a": 0, "batch": 0})],
)
def test_symbols_are_bound_by_bare_dimensions(shapes: Shapes, bound: dict[str, int]) -> None:
    inputs = (
        TensorSpec(element_type=FLOAT, shape=(symbol("a"), BATCH)),
        TensorSpec(element_type=FLOAT, shape=(BATCH,)),
    )
    assert bind_symbols(inputs, shapes) == bound
