from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.compiler.machine_code.arena_layout import LayoutCache, with_room
from ortpkg.compiler.machine_code.program import ALIGNMENT, ArenaBuffer

SPANS = ((0, 1), (1, 2), (2, 3), (0, 3))


def layouts() -> LayoutCache:
    return LayoutCache(
        [ArenaBuffer(nbytes=0, first_step=first, last_step=last) for first, last in SPANS]
    )


def lengths(*nbytes: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(nbytes, np.int64)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 5000)] * len(SPANS)), min_size=1, max_size=6))
def test_buffers_that_count_at_one_step_share_no_byte(given_lengths: list[tuple[int, ...]]) -> None:
    made = layouts()
    for each in given_lengths:
        layout = made.layout_for(lengths(*each))
        assert (layout.room >= lengths(*each)).all()
        for left, right in itertools.combinations(range(len(SPANS)), 2):
            has_none = 0 in (each[left], each[right])
            apart = has_none or SPANS[left][1] < SPANS[right][0] or SPANS[right][1] < SPANS[left][0]
            left_end, right_end = (
                layout.offsets[left] + each[left],
                layout.offsets[right] + each[right],
            )
            assert apart or left_end <= layout.offsets[right] or right_end <= layout.offsets[left]
        assert (layout.offsets % ALIGNMENT == 0).all()
        assert (layout.offsets + lengths(*each) <= layout.nbytes).all()


def test_the_first_layout_has_what_is_needed_and_no_more() -> None:
    layout = layouts().layout_for(lengths(640, 640, 640, 64))
    assert layout.nbytes == 2 * 640 + 64


def test_lengths_that_grow_by_little_are_served_by_few_layouts() -> None:
    made = layouts()
    offsets = {id(made.layout_for(lengths(*[1000 + 64 * turn] * 4)).offsets) for turn in range(200)}
    assert len(offsets) < 30


def test_a_layout_for_much_does_not_serve_little() -> None:
    made = layouts()
    large = made.layout_for(lengths(*[1_000_000] * 4))
    small = made.layout_for(lengths(*[1000] * 4))
    assert small.nbytes < large.nbytes / 100
    assert made.layout_for(lengths(*[1_000_000] * 4)) is large
    assert made.layout_for(lengths(*[900] * 4)) is small


@given(st.integers(0, 1 << 50))
def test_room_is_at_most_a_quarter_more(length: int) -> None:
    (room,) = with_room(lengths(length)).tolist()
    assert length <= room <= length + length // 4 + 1
