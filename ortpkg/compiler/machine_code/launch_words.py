"""Layout of a program in the words of a launch, computed once per program.

The words are one array: the launch, the table of steps, each step's addresses and numbers, the
status, the counters, the reports. Addresses are filled in for each run. Numbers that depend on
input shapes are computed for all steps at once, with the index lists here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from ortpkg.compiler.machine_code.executor_abi import (
    COUNTER_WORDS,
    LAUNCH_WORDS,
    STATUS_WORDS,
    STEP_WORDS,
    LaunchWord,
)
from ortpkg.compiler.machine_code.program import Condition, Program, Space, Step
from ortpkg.graph.shapes.expressions import Size

Words = npt.NDArray[np.int64]
_KERNEL, _BUFFERS, _SIZES, _TILES, _CHUNK, _GROUP, _WAVE = range(7)
_CACHE_LINE_WORDS = 8


@dataclass(slots=True)
class _Pairs:
    """Words, and a number for each."""

    words: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def add(self, word: int, number: int) -> None:
        self.words.append(word)
        self.numbers.append(number)

    def arrays(self) -> tuple[Words, Words]:
        return np.array(self.words, np.int64), np.array(self.numbers, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepConditions:
    """The conditions of all steps.

    Attributes:
        step: index of the step.
        size: index of the size that decides.
        least, most: range of sizes for which the condition holds.
    """

    step: Words
    size: Words
    least: Words
    most: Words


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBuffers:
    """The buffers of all steps.

    Attributes:
        word: index of the word with the address.
        length_word: index of the word with the length in bytes.
        slot: index of the memory: inputs, outputs, reports, constants, arena buffers, in this
            order.
        offset: index of the size that is the offset in it.
        step: index of the step.
    """

    word: Words
    length_word: Words
    slot: Words
    offset: Words
    step: Words


class ProgramWords:
    """The words of all launches of a program.

    Attributes:
        count: number of words.
        template: words that are equal in all launches; kernels are offsets in the code.
        sizes: the distinct sizes of the program.
        is_length: for each size, True if it counts something and must not be negative.
        size_words, size_indices: words that are sizes, and which.
        tile_words, tile_indices: words that are tile counts, and their sizes, step by step.
        wave_words, wave_indices: words that are tiles of a wave, and their sizes, step by step.
        costs, cost_indices: the distinct costs of steps, and which each step has.
        conditions: conditions of steps.
        chunk_words, group_words, kernel_words: words that are chunks, lengths of groups, and
            addresses of kernels, step by step.
        own_words, own_offsets: words that are addresses in the words themselves, and their offsets.
        uses: buffers of steps.
        arena_indices, scratch_index: sizes that are the lengths of arena buffers, and of scratch.
        status: index of the status; the words from there on are 0 before a run.
        reports: index of the reports, which are the last words.
    """

    def __init__(self, program: Program) -> None:
        self.sizes: list[Size] = []
        self._size_index: dict[Size, int] = {}
        self._lengths: set[int] = set()
        steps = len(program.steps)
        starts = list(
            accumulate(
                map(_argument_count, program.steps), initial=LAUNCH_WORDS + STEP_WORDS * steps
            )
        )
        self.status = -(-starts[-1] // _CACHE_LINE_WORDS) * _CACHE_LINE_WORDS
        self.reports = self.status + STATUS_WORDS + COUNTER_WORDS * steps
        self.count = self.reports + len(program.reports)
        self.template: Words = np.zeros(self.count, np.int64)
        self.template[LaunchWord.STEP_COUNT] = steps
        self._slots = _slot_starts(program)
        self._find_words_of_steps(program, starts)
        costs = {step.cost_ps: None for step in program.steps}
        self.costs = tuple(costs)
        cost_positions = {cost: position for position, cost in enumerate(costs)}
        self.cost_indices = np.array(
            [cost_positions[step.cost_ps] for step in program.steps], np.int64
        )
        self.conditions = self._conditions_of(program.steps)
        self.arena_indices = [self.index_of(buffer.nbytes) for buffer in program.arena]
        self.scratch_index = self.index_of(program.scratch_nbytes)
        self.is_length = np.array([index in self._lengths for index in range(len(self.sizes))])

    def _find_words_of_steps(self, program: Program, starts: Sequence[int]) -> None:
        """Find the words of all steps, whose arguments begin at ``starts``."""
        addresses, sizes, tiles, waves = _Pairs(), _Pairs(), _Pairs(), _Pairs()
        addresses.add(LaunchWord.STEPS, LAUNCH_WORDS * 8)
        addresses.add(LaunchWord.STATUS, self.status * 8)
        addresses.add(LaunchWord.COUNTERS, (self.status + STATUS_WORDS) * 8)
        for number, step in enumerate(program.steps):
            row, arguments = LAUNCH_WORDS + STEP_WORDS * number, starts[number]
            numbers = arguments + len(step.buffers)
            self.template[row + _KERNEL] = program.functions[step.kernel]
            self.template[row + _CHUNK] = step.chunk
            addresses.add(row + _BUFFERS, arguments * 8)
            addresses.add(row + _SIZES, numbers * 8)
            tiles.add(row + _TILES, self.index_of(step.tile_count))
            waves.add(row + _WAVE, self.index_of(step.wave_tiles))
            for position, size in enumerate(step.sizes):
                sizes.add(numbers + position, self.index_of(size, is_length=False))
            for position, use in enumerate(step.buffers):
                if use.space is Space.REPORT:
                    addresses.add(arguments + position, (self.reports + use.index) * 8)
        self.own_words, self.own_offsets = addresses.arrays()
        self.size_words, self.size_indices = sizes.arrays()
        self.tile_words, self.tile_indices = tiles.arrays()
        self.wave_words, self.wave_indices = waves.arrays()
        self.chunk_words = self.tile_words + (_CHUNK - _TILES)
        self.group_words = self.tile_words + (_GROUP - _TILES)
        self.kernel_words = self.tile_words + (_KERNEL - _TILES)
        self.uses = self._uses_of(program.steps, starts)

    def _uses_of(self, steps: Sequence[Step], starts: Sequence[int]) -> StepBuffers:
        addresses, lengths = _Pairs(), _Pairs()
        for step, arguments in zip(steps, starts, strict=False):
            first_length = arguments + len(step.buffers) + len(step.sizes)
            for position, use in enumerate(step.buffers):
                addresses.add(arguments + position, self._slots[use.space] + use.index)
                lengths.add(first_length + position, self.index_of(use.offset))
        (word, slot), (length_word, offset) = addresses.arrays(), lengths.arrays()
        owners = np.repeat(np.arange(len(steps)), [len(owner.buffers) for owner in steps])
        return StepBuffers(
            word=word, length_word=length_word, slot=slot, offset=offset, step=owners
        )

    def index_of(self, size: Size, *, is_length: bool = True) -> int:
        """Return the index of a size, which is added if it is new."""
        index = self._size_index.setdefault(size, len(self.sizes))
        if index == len(self.sizes):
            self.sizes.append(size)
        if is_length:
            self._lengths.add(index)
        return index

    def _conditions_of(self, steps: Sequence[Step]) -> StepConditions:
        rows = [
            (number, self.index_of(condition.size), condition.least, _most_of(condition))
            for number, step in enumerate(steps)
            for condition in step.conditions
        ]
        step, size, least, most = np.array(rows, np.int64).reshape(-1, 4).T
        return StepConditions(step=step, size=size, least=least, most=most)

    def slots_of(self, space: Space) -> int:
        """Return the first slot of a kind of memory."""
        return self._slots[space]


def _most_of(condition: Condition) -> int:
    return int(np.iinfo(np.int64).max) if condition.most is None else condition.most


def _argument_count(step: Step) -> int:
    """Return the number of words for a step's addresses, sizes and lengths of buffers."""
    return 2 * len(step.buffers) + len(step.sizes)


def _slot_starts(program: Program) -> dict[Space, int]:
    counts = {
        Space.INPUT: len(program.inputs),
        Space.OUTPUT: len(program.outputs),
        Space.REPORT: len(program.reports),
        Space.CONSTANT: len(program.constants),
        Space.ARENA: len(program.arena),
    }
    return dict(zip(counts, accumulate(counts.values(), initial=0), strict=False))
