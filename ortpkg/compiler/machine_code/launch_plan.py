"""Launch plans: everything about a run that depends on its input shapes, computed once per shapes.

Every number is checked here: lengths are not negative, all numbers fit 63 bits, and no step gets a
buffer that begins past its end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ortpkg.compiler.machine_code.arena_layout import LayoutCache
from ortpkg.compiler.machine_code.executor_abi import LaunchWord
from ortpkg.compiler.machine_code.launch_words import ProgramWords, Words
from ortpkg.compiler.machine_code.program import (
    ALIGNMENT,
    REPORT_NBYTES,
    Program,
    Space,
    TensorSpec,
)
from ortpkg.compiler.machine_code.step_sharing import (
    LEAST_HELPED_PS,
    LEAST_WOKEN_PS,
    MOST_COST_PS,
    share_steps,
)
from ortpkg.foundations.errors import LimitExceededError, RunError, quoted
from ortpkg.graph.shapes.expressions import Size, evaluate
from ortpkg.graph.types import numpy_dtype

Shape = tuple[int, ...]
Flags = npt.NDArray[np.bool_]
#: No machine has so many bytes, or does so many tiles; sums of smaller numbers fit 63 bits.
_MOST_LENGTH = 1 << 48


class ShapesMisfitError(RunError):
    """A run with shapes that the program was not compiled for; other providers may accept them."""


class OuterUse(NamedTuple):
    """A word that is an address in an input or output: its index, and the offset in it."""

    word: int
    which: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """Everything that a run with inputs of certain shapes needs.

    Attributes:
        template: the words, except addresses.
        outputs: shape and type of each output.
        output_nbytes: bytes of all outputs.
        input_uses, output_uses: words to fill in for each run.
        arena_words, arena_offsets: words that are addresses in the block, and their offsets in it.
        scratch_offset: offset of the threads' scratch memory in the block.
        block_nbytes: bytes of arena and scratch memory.
        is_shared: True if several threads have enough to do.
        idle: words of this plan that are not in use.
    """

    template: Words
    outputs: tuple[tuple[Shape, np.dtype[Any]], ...]
    output_nbytes: int
    input_uses: tuple[OuterUse, ...]
    output_uses: tuple[OuterUse, ...]
    arena_words: Words
    arena_offsets: Words
    scratch_offset: int
    block_nbytes: int
    is_shared: bool
    idle: list[Any] = field(default_factory=list)


class LaunchPlanner:
    """Makes the launch plans of a program."""

    def __init__(self, program: Program, *, thread_count: int) -> None:
        """Plan with scratch memory for this many threads."""
        self.words = ProgramWords(program)
        self._program = program
        self._thread_count = thread_count
        self._layouts = LayoutCache(program.arena)
        self._constant_nbytes = [constant.nbytes for constant in program.constants]
        # decoders have dozens of caches that are declared with the same sizes
        self._alike_inputs = _first_alike(program.inputs)
        self._alike_outputs = _first_alike(program.outputs)
        self._output_dtypes = [numpy_dtype(spec.element_type) for spec in program.outputs]

    def plan(self, shapes: Sequence[Shape], template: Words) -> LaunchPlan:
        """Return the plan for inputs of these shapes.

        Args:
            shapes: shapes of the inputs, in order.
            template: the words that are equal for all shapes.

        Raises:
            ShapesMisfitError: if the program does not accept the shapes.
            RunError: if the tiles of a step are not a whole number of waves.
            LimitExceededError: if a size exceeds what any machine has.
        """
        symbols = self._symbols(shapes)
        self._verify_guards(symbols)
        words, uses = self.words, self.words.uses
        values = self._values(symbols)
        outputs = self._outputs(symbols)
        is_active = self._active_steps(values)
        arena_nbytes = values[words.arena_indices] * self._is_arena_used(is_active)
        slots = self._slot_lengths(shapes, outputs, arena_nbytes.tolist())
        arena = self._layouts.layout_for(arena_nbytes)
        offsets = values[uses.offset]
        filled = self._filled(template, values, is_active, slots[uses.slot] - offsets)
        first_arena, first_constant = words.slots_of(Space.ARENA), words.slots_of(Space.CONSTANT)
        is_arena = uses.slot >= first_arena
        is_constant = (uses.slot >= first_constant) & ~is_arena
        filled[uses.word[is_constant]] += offsets[is_constant]
        filled[words.tile_words] = values[words.tile_indices] * is_active
        filled[words.wave_words] = values[words.wave_indices]
        self._verify_waves(filled, symbols)
        shared_ps = self._share(filled, symbols)
        stride = int(filled[LaunchWord.SCRATCH_STRIDE])
        block_nbytes = arena.nbytes + stride * self._thread_count
        output_nbytes = sum(math.prod(shape) * dtype.itemsize for shape, dtype in outputs)
        _numbers([block_nbytes + output_nbytes])
        return LaunchPlan(
            template=filled,
            outputs=outputs,
            output_nbytes=output_nbytes,
            input_uses=self._outer_uses(Space.INPUT, len(shapes), offsets),
            output_uses=self._outer_uses(Space.OUTPUT, len(outputs), offsets),
            arena_words=uses.word[is_arena],
            arena_offsets=arena.offsets[uses.slot[is_arena] - first_arena] + offsets[is_arena],
            scratch_offset=arena.nbytes,
            block_nbytes=block_nbytes,
            is_shared=shared_ps >= LEAST_HELPED_PS,
        )

    def wrong_indices(self, shapes: Sequence[Shape], counts: Sequence[int]) -> RunError:
        """Return the error of a run with such inputs that reported ``counts``."""
        report, count = next(
            pair for pair in zip(self._program.reports, counts, strict=True) if pair[1]
        )
        size = _evaluated(report.size, self._symbols(shapes))
        indices = "1 index is" if count == 1 else f"{count} indices are"
        return RunError(
            f"node {quoted(report.node)} failed: {indices} out of range for an axis of size {size}",
            node_name=report.node,
        )

    def _verify_waves(self, filled: Words, symbols: Mapping[str, int]) -> None:
        """Raise RunError if the tiles of a step are not a whole number of waves."""
        tiles, waves = filled[self.words.tile_words], filled[self.words.wave_words]
        rest = tiles % np.maximum(waves, 1)
        if rest.any():
            index = int(np.flatnonzero(rest)[0])
            raise RunError(
                f"step {index} of the compiled program has {int(tiles[index])} tiles in waves of"
                f" {int(waves[index])} for {_shown_symbols(symbols)}"
            )

    def _share(self, filled: Words, symbols: Mapping[str, int]) -> int:
        """Fill in the words of sharing; return the time of the shared steps in picoseconds."""
        words = self.words
        costs = np.array([_cost(cost, symbols) for cost in words.costs], np.int64)
        sharing = share_steps(
            filled[words.tile_words],
            costs[words.cost_indices],
            wave_tiles=filled[words.wave_words],
            least_chunks=filled[words.chunk_words],
            thread_count=self._thread_count,
        )
        filled[words.chunk_words] = sharing.chunks
        filled[words.group_words] = sharing.groups
        filled[LaunchWord.WAKES] = sharing.shared_ps >= LEAST_WOKEN_PS
        return sharing.shared_ps

    def _symbols(self, shapes: Sequence[Shape]) -> dict[str, int]:
        """Return :func:`bind_symbols`, reading only one of several equal inputs."""
        inputs, first_of = self._program.inputs, self._alike_inputs
        repeated = [
            shapes[index] == shapes[first] and index != first
            for index, first in enumerate(first_of)
        ]
        return bind_symbols(inputs, shapes, repeated)

    def _outputs(self, symbols: Mapping[str, int]) -> tuple[tuple[Shape, np.dtype[Any]], ...]:
        """Return shape and type of each output."""
        shapes: list[Shape] = []
        for spec, first in zip(self._program.outputs, self._alike_outputs, strict=True):
            is_new = first == len(shapes)
            shapes.append(_shape_of(spec, symbols) if is_new else shapes[first])
        return tuple(zip(shapes, self._output_dtypes, strict=True))

    def _slot_lengths(
        self,
        shapes: Sequence[Shape],
        outputs: Sequence[tuple[Shape, np.dtype[Any]]],
        arena_nbytes: list[int],
    ) -> Words:
        """Return the bytes of each memory that steps use, in the order of the slots."""
        _numbers([sum(arena_nbytes)])
        inputs = [
            math.prod(shape) * numpy_dtype(spec.element_type).itemsize
            for spec, shape in zip(self._program.inputs, shapes, strict=True)
        ]
        output_nbytes = [math.prod(shape) * dtype.itemsize for shape, dtype in outputs]
        reports = [REPORT_NBYTES] * len(self._program.reports)
        return _numbers([*inputs, *output_nbytes, *reports, *self._constant_nbytes, *arena_nbytes])

    def _active_steps(self, values: Words) -> Flags:
        """Return for each step whether all of its conditions hold."""
        conditions = self.words.conditions
        sizes = values[conditions.size]
        holds = (conditions.least <= sizes) & (sizes <= conditions.most)
        is_active = np.ones(len(self._program.steps), bool)
        is_active[conditions.step[~holds]] = False
        return is_active

    def _is_arena_used(self, is_active: Flags) -> Flags:
        """Return for each arena buffer whether an active step uses it; others take no memory."""
        uses, first = self.words.uses, self.words.slots_of(Space.ARENA)
        is_used = np.zeros(len(self._program.arena), bool)
        is_used[uses.slot[(uses.slot >= first) & is_active[uses.step]] - first] = True
        return is_used

    def _filled(self, template: Words, values: Words, is_active: Flags, lengths: Words) -> Words:
        """Return the words with all sizes and lengths of buffers."""
        words = self.words
        lengths = np.where(is_active[words.uses.step], lengths, 0)
        self._verify_uses(lengths)
        filled = template.copy()
        filled[words.size_words] = values[words.size_indices]
        filled[words.uses.length_word] = lengths
        scratch_nbytes = int(values[words.scratch_index])
        filled[LaunchWord.SCRATCH_STRIDE] = -(-scratch_nbytes // ALIGNMENT) * ALIGNMENT
        return filled

    def _verify_guards(self, symbols: Mapping[str, int]) -> None:
        """Raise ShapesMisfitError if the code would leave a buffer for these sizes."""
        for guard in self._program.guards:
            if _evaluated(guard.margin, symbols) < 0 and all(
                _evaluated(size, symbols) > 0 for size in guard.axes
            ):
                raise ShapesMisfitError(
                    f"the shapes of the inputs do not fit one another: {guard.margin} is below 0"
                    f" for {_shown_symbols(symbols)}"
                )

    def _values(self, symbols: Mapping[str, int]) -> Words:
        """Return each distinct size of the program as a number."""
        values = _numbers([_evaluated(size, symbols) for size in self.words.sizes])
        if (values[self.words.is_length] < 0).any():
            index = int(np.flatnonzero((values < 0) & self.words.is_length)[0])
            raise ShapesMisfitError(
                f"the size {quoted(self.words.sizes[index])} of the compiled program is"
                f" {int(values[index])} for {_shown_symbols(symbols)}"
            )
        if (values[self.words.is_length] > _MOST_LENGTH).any():
            raise _too_large(int(values[self.words.is_length].max()))
        return values

    def _verify_uses(self, lengths: Words) -> None:
        if not (lengths < 0).any():
            return
        index = int(np.flatnonzero(lengths < 0)[0])
        for step in self._program.steps:
            if index < len(step.buffers):
                use = step.buffers[index]
                raise RunError(
                    f"step {quoted(step.name or step.kernel)} of the compiled program begins"
                    f" {-int(lengths[int(np.flatnonzero(lengths < 0)[0])])} bytes behind the end of"
                    f" {use.space.value} {use.index}"
                )
            index -= len(step.buffers)

    def _outer_uses(self, space: Space, count: int, offsets: Words) -> tuple[OuterUse, ...]:
        first = self.words.slots_of(space)
        uses = self.words.uses
        chosen = np.flatnonzero((uses.slot >= first) & (uses.slot < first + count))
        parts = (uses.word[chosen], uses.slot[chosen] - first, offsets[chosen])
        return tuple(map(OuterUse, *(part.tolist() for part in parts)))


def _first_alike(specs: Sequence[TensorSpec]) -> list[int]:
    """Return for each tensor the index of the first one declared with the same sizes."""
    first: dict[tuple[Size, ...], int] = {}
    return [first.setdefault(spec.shape, number) for number, spec in enumerate(specs)]


def bind_symbols(
    inputs: Sequence[TensorSpec], shapes: Sequence[Shape], repeated: Sequence[bool] = ()
) -> dict[str, int]:
    """Return the value of each symbol in the inputs' shapes.

    Args:
        inputs: declared inputs.
        shapes: shapes of the inputs.
        repeated: True for each input that equals an earlier one in declaration and shape.

    Raises:
        RunError: if the program does not accept a shape.
    """
    symbols: dict[str, int] = {}
    looked_at = [
        (index, spec, shape)
        for index, (spec, shape) in enumerate(zip(inputs, shapes, strict=True))
        if not (repeated and repeated[index])
    ]
    for index, spec, shape in looked_at:
        if len(shape) != len(spec.shape):
            raise _misfit(index, spec, shape, symbols)
        for size, actual in zip(spec.shape, shape, strict=True):
            if isinstance(size, int):
                if size != actual:
                    raise _misfit(index, spec, shape, symbols)
            elif (bound_symbol := size.symbol) is not None and symbols.setdefault(
                bound_symbol.name, actual
            ) != actual:
                raise _misfit(index, spec, shape, symbols)
    for index, spec, shape in looked_at:
        for size, actual in zip(spec.shape, shape, strict=True):
            is_formula = not isinstance(size, int) and size.symbol is None
            if is_formula and _evaluated(size, symbols) != actual:
                raise _misfit(index, spec, shape, symbols)
    return symbols


def _evaluated(size: Size, symbols: Mapping[str, int]) -> int:
    try:
        return evaluate(size, symbols)
    except (ArithmeticError, ValueError) as error:
        raise ShapesMisfitError(
            f"the size {quoted(size)} of the compiled program has no value for"
            f" {_shown_symbols(symbols)}: {quoted(error)}"
        ) from error


def _cost(size: Size, symbols: Mapping[str, int]) -> int:
    try:
        return max(0, min(evaluate(size, symbols), MOST_COST_PS))
    except (ArithmeticError, ValueError):
        return MOST_COST_PS


def _shape_of(spec: TensorSpec, symbols: Mapping[str, int]) -> Shape:
    shape = tuple(_evaluated(size, symbols) for size in spec.shape)
    if min(shape, default=0) < 0:
        raise ShapesMisfitError(
            f"output {quoted(spec.name)} of the compiled program would have the shape"
            f" {_shown(shape)} for {_shown_symbols(symbols)}"
        )
    return shape


def _numbers(values: list[int]) -> Words:
    try:
        return np.array(values, np.int64)
    except OverflowError:
        raise _too_large(max(values, key=abs)) from None


def _too_large(number: int) -> LimitExceededError:
    return LimitExceededError(
        f"the compiled program would need {number} bytes or elements for these shapes, which no"
        " machine has",
        limit="memory",
    )


def _misfit(
    index: int, spec: TensorSpec, shape: Shape, symbols: Mapping[str, int]
) -> ShapesMisfitError:
    bound_values = {name: value for name, value in symbols.items() if name in _names_in(spec)}
    bound = f", where {_shown_symbols(bound_values)}" if bound_values else ""
    return ShapesMisfitError(
        f"input {index} ({quoted(spec.name)}) has the shape {_shown(shape)}, and the compiled"
        f" program takes {_shown(spec.shape)}{bound}"
    )


def _names_in(spec: TensorSpec) -> frozenset[str]:
    return frozenset(
        bound_symbol.name
        for size in spec.shape
        if not isinstance(size, int) and (bound_symbol := size.symbol) is not None
    )


def _shown(shape: Sequence[Size]) -> str:
    return f"[{', '.join(str(size) for size in shape)}]"


def _shown_symbols(symbols: Mapping[str, int]) -> str:
    return ", ".join(f"{quoted(name)} = {value}" for name, value in symbols.items()) or "no symbols"
