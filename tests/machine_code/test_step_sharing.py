from __future__ import annotations

import numpy as np
import pytest

from ortpkg.compiler.machine_code.step_sharing import MOST_COST_PS, Sharing, share_steps

US = 10**6


def shared(
    *steps: tuple[int, float], least_chunk: int = 1, threads: int = 2, wave: int = 0
) -> Sharing:
    """Of steps that are (tiles, microseconds)."""
    return share_steps(
        np.array([tiles for tiles, _ in steps], np.int64),
        np.array([round(cost * US) for _, cost in steps], np.int64),
        wave_tiles=np.full(len(steps), wave, np.int64),
        least_chunks=np.full(len(steps), least_chunk, np.int64),
        thread_count=threads,
    )


def test_small_steps_in_a_row_are_one_group() -> None:
    made = shared((2, 1), (1, 500), (9, 100), (3, 2), (0, 0), (9, 100), (1, 9))
    assert made.groups.tolist() == [2, 0, 0, 2, 0, 0, 1]
    assert made.shared_ps == 200 * US


def test_one_thread_does_all_steps_as_one_group() -> None:
    made = shared((9, 100), (1, 1), (500, 9000), threads=1)
    assert made.groups.tolist() == [3, 0, 0]
    assert made.shared_ps == 0


@pytest.mark.parametrize(
    ("step", "chunk"),
    [
        ((16, 160), 1),  # 10 microseconds each
        ((1000, 100), 20),  # 0.1 each: 2 microseconds a chunk
        ((16, 4.8), 2),  # each thread gets four
        ((3, 6), 1),
        ((0, 0), 1),
        ((1 << 40, 0.5), 500_000 * 4),
    ],
)
def test_tiles_are_handed_out_some_microseconds_at_a_time(
    step: tuple[int, float], chunk: int
) -> None:
    assert shared(step).chunks.tolist() == [chunk]


def test_a_program_may_ask_for_larger_chunks() -> None:
    assert shared((16, 160), (2, 160), least_chunk=5).chunks.tolist() == [5, 2]


def test_each_thread_takes_one_part_of_a_wave() -> None:
    made = shared((800, 1000), wave=8, threads=3)
    assert (made.groups.tolist(), made.chunks.tolist()) == ([0], [3])
    assert shared((800, 1000), wave=8, threads=16).chunks.tolist() == [1]
    assert shared((7000, 9000), wave=70, threads=64).chunks.tolist() == [3]  # 32 parts at most


@pytest.mark.parametrize(
    ("step", "wave"),
    [
        ((800, 100), 8),  # 1 microsecond each wave
        ((100, 1000), 1),
        ((2**33, 1e9), 2),
    ],
)
def test_waves_that_are_not_worth_it_are_done_by_one_thread(
    step: tuple[int, float], wave: int
) -> None:
    assert shared(step, wave=wave).groups.tolist() == [1]


def test_the_costs_of_any_number_of_steps_have_a_sum() -> None:
    steps = np.full(2000, MOST_COST_PS)
    made = share_steps(
        steps,
        steps,
        wave_tiles=np.zeros(2000, np.int64),
        least_chunks=np.ones(2000, np.int64),
        thread_count=2,
    )
    assert made.shared_ps == 2000 * MOST_COST_PS
