"""Verifies a program: for any sizes, it refers only to things that exist.

Conditions that depend on the sizes of a run, such as an offset within a buffer, are checked when
these are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NoReturn

from ortpkg.compiler.machine_code.abi import ABI_VERSION
from ortpkg.compiler.machine_code.executor_abi import EXECUTOR_FUNCTIONS
from ortpkg.compiler.machine_code.program import (
    BufferUse,
    Program,
    Space,
    Step,
    TensorSpec,
)
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.foundations.errors import EpContextError, quoted
from ortpkg.graph.shapes.expressions import Size, symbols_of
from ortpkg.graph.types import MOST_DIMENSIONS, ElementType

#: Numbers are 64 bits wide in the code.
MOST_NUMBER = (1 << 63) - 1
_MOST_CODE_NBYTES = 1 << 31
_MOST_TENSORS = 65_536
_MOST_CONSTANTS = 1_000_000
_MOST_STEPS = 1_000_000
_MOST_ARENA_BUFFERS = 1_000_000
_MOST_REPORTS = 65_536
_MOST_BUFFERS_OF_STEP = 256
_MOST_SIZES_OF_STEP = 1024
_MOST_CONDITIONS_OF_STEP = 16
_MOST_EXTRAS = 64
_LONGEST_NAME = 1024
_LONGEST_STEP_NAME = 1 << 16
_NOT_IN_MEMORY = frozenset({ElementType.UNDEFINED, ElementType.STRING})


def verify_program(program: Program) -> None:
    """Raise EpContextError, naming the part at fault, for a program that could not run."""
    _verify_code(program)
    for kind, specs in (("input", program.inputs), ("output", program.outputs)):
        _bound(len(specs), _MOST_TENSORS, f"{kind}s")
        for index, spec in enumerate(specs):
            _verify_tensor(spec, f"{kind} {index}")
    bound = input_symbols(program.inputs)
    for kind, specs in (("input", program.inputs), ("output", program.outputs)):
        for index, spec in enumerate(specs):
            for size in spec.shape:
                _verify_size(size, bound, f"shape of {kind} {index}")
    _verify_size(program.scratch_nbytes, bound, "scratch memory")
    _verify_memory(program, bound)
    _bound(len(program.reports), _MOST_REPORTS, "reports")
    for index, report in enumerate(program.reports):
        _verify_size(report.size, bound, f"axis of report {index}")
        if len(report.node) > _LONGEST_STEP_NAME:
            _fail(f"the node of report {index} has more than {_LONGEST_STEP_NAME} characters")
    _bound(len(program.guards), _MOST_STEPS, "guards")
    for index, guard in enumerate(program.guards):
        for size in (*guard.axes, guard.margin):
            _verify_symbols(size, bound, f"guard {index}")
    _bound(len(program.steps), _MOST_STEPS, "steps")
    for index, step in enumerate(program.steps):
        _verify_step(program, step, index, bound)
    _verify_outputs_are_written(program)


def input_symbols(inputs: Iterable[TensorSpec]) -> frozenset[str]:
    """Return the names of symbols that input shapes bind: those that are a whole dimension."""
    return frozenset(
        bound_symbol.name
        for spec in inputs
        for size in spec.shape
        if not isinstance(size, int) and (bound_symbol := size.symbol) is not None
    )


def _fail(what: str) -> NoReturn:
    raise EpContextError(f"the program of the machine code is wrong: {what}", ep_name=LLVM_EP)


def _bound(count: int, most: int, things: str) -> None:
    if count > most:
        _fail(f"it has {count} {things}, and may have {most}")


def _verify_code(program: Program) -> None:
    if program.abi_version != ABI_VERSION:
        _fail(
            f"its code is called as version {program.abi_version} says, this version of ortpkg"
            f" calls as version {ABI_VERSION} says"
        )
    if not 0 < program.code_nbytes <= _MOST_CODE_NBYTES:
        _fail(f"its code has {program.code_nbytes} bytes, not 1 to {_MOST_CODE_NBYTES}")
    _bound(len(program.extras), _MOST_EXTRAS, "features beyond those of its target")
    _bound(len(program.functions), _MOST_STEPS, "functions")
    for name in (program.target, *program.extras, *program.functions):
        if not 0 < len(name) <= _LONGEST_NAME:
            _fail(f"the name {quoted(name)} has not 1 to {_LONGEST_NAME} characters")
    for name, offset in program.functions.items():
        if not 0 <= offset < program.code_nbytes:
            _fail(
                f"function {quoted(name)} begins at byte {offset} of code of"
                f" {program.code_nbytes} bytes"
            )
    for needed in EXECUTOR_FUNCTIONS:
        if needed not in program.functions:
            _fail(f"it has no function {quoted(needed)}")


def _verify_tensor(spec: TensorSpec, subject: str) -> None:
    if spec.element_type in _NOT_IN_MEMORY:
        _fail(
            f"{subject} has elements of type {spec.element_type.name.lower()}, which no code reads"
        )
    _bound(len(spec.shape), MOST_DIMENSIONS, f"dimensions in {subject}")


def _verify_memory(program: Program, bound: frozenset[str]) -> None:
    _bound(len(program.constants), _MOST_CONSTANTS, "constants")
    for index, constant in enumerate(program.constants):
        _verify_number(constant.nbytes, f"length of constant {index}")
    _bound(len(program.arena), _MOST_ARENA_BUFFERS, "arena buffers")
    for index, buffer in enumerate(program.arena):
        _verify_size(buffer.nbytes, bound, f"length of arena buffer {index}")
        if not 0 <= buffer.first_step <= buffer.last_step < len(program.steps):
            _fail(
                f"arena buffer {index} is used from step {buffer.first_step} to step"
                f" {buffer.last_step} of {len(program.steps)} steps"
            )


def _verify_step(program: Program, step: Step, index: int, bound: frozenset[str]) -> None:
    subject = f"step {index}"
    if step.kernel not in program.functions or step.kernel in EXECUTOR_FUNCTIONS:
        _fail(f"{subject} calls {quoted(step.kernel)}, which is no kernel of its code")
    if not 1 <= step.chunk <= MOST_NUMBER:
        _fail(f"{subject} has chunks of {step.chunk} tiles, not of 1 or more")
    if len(step.name) > _LONGEST_STEP_NAME:
        _fail(f"the name of {subject} has more than {_LONGEST_STEP_NAME} characters")
    _bound(len(step.buffers), _MOST_BUFFERS_OF_STEP, f"buffers in {subject}")
    _bound(len(step.sizes), _MOST_SIZES_OF_STEP, f"sizes in {subject}")
    _verify_size(step.tile_count, bound, f"tile count of {subject}")
    _verify_size(step.wave_tiles, bound, f"wave of {subject}")
    _verify_size(step.cost_ps, bound, f"cost of {subject}")
    for size in step.sizes:
        _verify_symbols(size, bound, f"sizes of {subject}")
        if isinstance(size, int) and not -MOST_NUMBER <= size <= MOST_NUMBER:
            _fail(f"{subject} has the size {size}, which takes more than 64 bits")
    _bound(len(step.conditions), _MOST_CONDITIONS_OF_STEP, f"conditions in {subject}")
    for condition in step.conditions:
        _verify_size(condition.size, bound, f"condition of {subject}")
        _verify_number(condition.least, f"condition of {subject}")
        if condition.most is not None:
            _verify_number(condition.most, f"condition of {subject}")
    for use in step.buffers:
        _verify_use(program, use, index)
        _verify_size(use.offset, bound, f"offset of a buffer of {subject}")


def _verify_use(program: Program, use: BufferUse, index: int) -> None:
    counts = {
        Space.INPUT: len(program.inputs),
        Space.OUTPUT: len(program.outputs),
        Space.REPORT: len(program.reports),
        Space.CONSTANT: len(program.constants),
        Space.ARENA: len(program.arena),
    }
    what = f"step {index} uses {use.space.value} {use.index}"
    if not 0 <= use.index < counts[use.space]:
        _fail(f"{what} of {counts[use.space]}")
    if use.space is Space.REPORT and use.offset != 0:
        _fail(f"{what} from byte {use.offset} on, and not whole")
    if use.space is not Space.ARENA:
        return
    buffer = program.arena[use.index]
    if not buffer.first_step <= index <= buffer.last_step:
        _fail(
            f"{what}, whose content counts from step {buffer.first_step} to step"
            f" {buffer.last_step} alone"
        )


def _verify_outputs_are_written(program: Program) -> None:
    used = {use.index for use in _uses(program.steps) if use.space is Space.OUTPUT}
    for index, spec in enumerate(program.outputs):
        if index not in used and 0 not in spec.shape:
            _fail(f"no step uses output {index}, which would be what the memory held before")


def _uses(steps: Iterable[Step]) -> Iterator[BufferUse]:
    for step in steps:
        yield from step.buffers


def _verify_size(size: Size, bound: frozenset[str], subject: str) -> None:
    if isinstance(size, int):
        _verify_number(size, subject)
    _verify_symbols(size, bound, subject)


def _verify_number(number: int, subject: str) -> None:
    if not 0 <= number <= MOST_NUMBER:
        _fail(f"the {subject} is {number}, not a size from 0 to {MOST_NUMBER}")


def _verify_symbols(size: Size, bound: frozenset[str], subject: str) -> None:
    if isinstance(size, int):
        return
    for free_symbol in sorted(symbols_of(size), key=lambda named: named.name):
        if free_symbol.name not in bound:
            _fail(
                f"the {subject} needs the size {quoted(free_symbol.name)}, which no input's shape"
                " gives"
            )
