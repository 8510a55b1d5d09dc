"""Decides which steps the threads of a run share, and which a single thread does.

Handing out a tile takes some 0.1 microseconds, waiting at the end of a step about 0.5, and data
written by another core must be fetched from its cache. So one thread is faster for a step of less
than some microseconds. Consecutive steps of that kind form one group without waiting inside. Waking
a sleeping worker takes 50 to 100 microseconds, in which others continue; a worker that is still
awake, because it has just helped another run, comes at once.

If tiles come in waves, threads wait for each other after each wave: a step is shared if one wave is
worth it, and each thread then takes one part of each wave.

All of this was measured on a virtual machine of two cores; the decision needs only the order of
magnitude. Results do not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

_US = 10**6
#: Least time of a shared step.
_LEAST_SHARED_PS = 4 * _US
#: Target time of the tiles that are handed out at once, if each thread still gets some.
_CHUNK_PS = 2 * _US
_CHUNKS_OF_THREAD = 4
#: Least time of a shared wave, and most waves of a shared step, whose number is half a word.
_LEAST_WAVE_PS = 2 * _US
_MOST_WAVES = 2**31 - 1
#: Most parts of a wave; each is a bit of half a word.
_MOST_PARTS = 32
#: With less to share than the first, one thread computes a run; with less than the second, only
#: workers that are awake help.
LEAST_HELPED_PS = 20 * _US
LEAST_WOKEN_PS = 40 * _US
#: Longer than anybody waits, and small enough that sums of costs fit 63 bits.
MOST_COST_PS = 10**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Sharing of the steps of a run.

    Attributes:
        groups: for each step, number of steps from it on that a single thread does; 0 if it is
            shared,
            or inside a group.
        chunks: for each step, number of tiles that a thread takes at once.
        shared_ps: time of the shared steps on one thread.
    """

    groups: Numbers
    chunks: Numbers
    shared_ps: int


def share_steps(
    tiles: Numbers,
    costs_ps: Numbers,
    *,
    wave_tiles: Numbers,
    least_chunks: Numbers,
    thread_count: int,
) -> Sharing:
    """Decide how threads share the steps of a run.

    Args:
        tiles: number of tiles of each step.
        costs_ps: time of each step on one thread, 0 to :data:`MOST_COST_PS`.
        wave_tiles: number of tiles in a wave of each step; 0 if its tiles are independent.
        least_chunks: least number of tiles taken at once, if they are independent.
        thread_count: number of threads of the run.
    """
    tile_ps = np.maximum(costs_ps // np.maximum(tiles, 1), 1)
    most = np.maximum(tiles // (_CHUNKS_OF_THREAD * thread_count), 1)
    chunks = np.minimum(-(-_CHUNK_PS // tile_ps), most)
    chunks = np.minimum(np.maximum(chunks, least_chunks), np.maximum(tiles, 1))
    is_shared = (tiles > chunks) & (costs_ps >= _LEAST_SHARED_PS) & (thread_count > 1)
    waves = tiles // np.maximum(wave_tiles, 1)
    is_wave_shared = (costs_ps // np.maximum(waves, 1) >= _LEAST_WAVE_PS) & (waves <= _MOST_WAVES)
    is_ordered = wave_tiles > 0
    is_shared &= ~is_ordered | (is_wave_shared & (wave_tiles > 1))
    parts = -(-wave_tiles // min(thread_count, _MOST_PARTS))
    chunks = np.where(is_ordered & is_shared, parts, chunks)
    return Sharing(
        groups=_group_lengths(is_shared),
        chunks=chunks,
        shared_ps=sum(costs_ps[is_shared].tolist()),
    )


def _group_lengths(is_shared: npt.NDArray[np.bool_]) -> Numbers:
    """Return, for the first step of each series that is not shared, the series' length."""
    alone = np.concatenate([[False], ~is_shared, [False]]).astype(np.int8)
    edges = np.diff(alone)
    firsts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    groups = np.zeros(len(is_shared), np.int64)
    groups[firsts] = ends - firsts
    return groups
