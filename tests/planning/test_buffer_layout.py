from __future__ import annotations

import itertools
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.foundations.buffer_layout import Buffer, lay_out, least_possible_peak
from tests.lines_run import instructions_run, lines_run


def test_smallest_gap_that_fits_is_taken() -> None:
    buffers = [
        Buffer(0, 1024, ((0, 0),)),
        Buffer(1, 512, ((0, 9),)),
        Buffer(2, 256, ((0, 0),)),
        Buffer(3, 192, ((0, 9),)),
        Buffer(4, 128, ((1, 9),)),
    ]
    offsets = lay_out(buffers, 64).offsets
    assert offsets[4] == offsets[2]


def test_buffers_of_nothing_leave_the_others_apart() -> None:
    spans = [(0, 1), (1, 7), (2, 3), (4, 5), (6, 7), (7, 9), (7, 7), (7, 7), (8, 9), (9, 12)]
    sizes = [0, 1584, 8640, 0, 21120, 396, 396, 396, 96, 5440]
    buffers = [
        Buffer(owner, nbytes, (span,))
        for owner, (nbytes, span) in enumerate(zip(sizes, spans, strict=True))
    ]
    late = Buffer(10, 1400, ((10, 11),))

    offsets = lay_out([*buffers, late], 64).offsets

    assert offsets[10] >= offsets[9] + 5440 or offsets[9] >= offsets[10] + 1400


def test_buffers_that_are_used_by_turns_are_compared_in_one_pass() -> None:
    count = 200
    one = Buffer(0, 64, tuple((4 * turn, 4 * turn + 1) for turn in range(count)))
    other = Buffer(1, 64, tuple((4 * turn + 2, 4 * turn + 3) for turn in range(count)))

    assert not one.overlaps(other)
    assert lines_run(lambda: one.overlaps(other)) < 20 * count
    assert one.overlaps(Buffer(2, 64, ((4 * count - 3, 4 * count - 3),)))


def test_many_gaps_that_are_too_small_cost_a_new_buffer_no_look_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ortpkg.foundations.buffer_layout._MOST_BUFFERS_FOR_BEST_LAYOUT", 0)

    def comb(count: int) -> list[Buffer]:
        """Buffers of which every second one ends, then as many that fit into no gap."""
        teeth = [
            Buffer(owner, 64, ((0, 9 + count if owner % 2 else 1),)) for owner in range(2 * count)
        ]
        return teeth + [
            Buffer(2 * count + number, 128, ((number + 2, 9 + count),)) for number in range(count)
        ]

    few, more, most = (
        instructions_run(partial(lay_out, comb(count), 64)) for count in (50, 100, 150)
    )

    assert most - more < 1.02 * (more - few)


intervals = st.lists(st.integers(0, 30), min_size=2, max_size=6, unique=True).map(
    lambda steps: tuple(zip(sorted(steps)[::2], sorted(steps)[1::2], strict=False))
)
layouts = st.lists(
    st.tuples(st.one_of(st.just(0), st.integers(1, 5000)), intervals), max_size=40
).map(lambda parts: [Buffer(owner, *part) for owner, part in enumerate(parts)])


@pytest.mark.requirement("M24")
@pytest.mark.parametrize("most", [1000, 0], ids=["by size", "by step"])
@settings(max_examples=60, deadline=None)
@given(buffers=layouts)
def test_no_two_buffers_share_bytes_while_both_are_in_use(most: int, buffers: list[Buffer]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ortpkg.foundations.buffer_layout._MOST_BUFFERS_FOR_BEST_LAYOUT", most)
        pattern = lay_out(buffers, 64)
    for step in range(31):
        live = [b for b in buffers if any(start <= step <= end for start, end in b.intervals)]
        ranges = sorted(
            (pattern.offsets[b.owner], pattern.offsets[b.owner] + b.nbytes) for b in live
        )
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(ranges))
        assert all(start % 64 == 0 and end <= pattern.peak_size for start, end in ranges)
    assert pattern.peak_size >= least_possible_peak(buffers)
