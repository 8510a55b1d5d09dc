"""Decides which steps the threads of a run share, and which one thread does alone.

Handing out a tile takes some 0.1 microseconds, waiting at the end of a step about 0.5, and what
another core has written has to be fetched from its cache. A step of less than some microseconds is
done sooner by one thread. Such steps, when they follow each other, are one group without any
waiting inside. To wake a worker that sleeps takes 50 to 100 microseconds, in which others go on; a
worker that is awake still, because it has just helped another run, comes at once.

Where tiles come in waves, threads wait for each other after each of them: a step is shared where
one wave is worth it, and then each thread takes one part of each wave.

All of this was measured, on a virtual machine of two cores; the decision needs its order of
magnitude alone. Results do not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

_US = 10**6
#: A step that takes less is not shared.
_LEAST_SHARED_PS = 4 * _US
#: Tiles are handed out so many at once that they take this long, as far as each thread gets some.
_CHUNK_PS = 2 * _US
_CHUNKS_OF_THREAD = 4
#: A step is not shared whose waves take less, or that has more waves than their number's half word.
_LEAST_WAVE_PS = 2 * _US
_MOST_WAVES = 2**31 - 1
#: Of a wave, each a bit of a half word.
_MOST_PARTS = 32
#: With less to share than this a run is computed alone; with less than that, only with the help of
#: workers that are awake.
LEAST_HELPED_PS = 20 * _US
LEAST_WOKEN_PS = 40 * _US
#: Longer than anybody waits; sums of costs stay within 63 bits.
MOST_COST_PS = 10**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """How the steps of a run are done.

    Attributes:
        groups: of each step, how many from it on one thread does alone; 0: it is shared, or inside
            of a group.
        chunks: how many tiles of each step a thread takes at once.
        shared_ps: how long the shared steps take one thread.
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
    """Decides it for steps with so many tiles and costs.

    Args:
        tiles: how many each step has.
        costs_ps: how long each step takes one thread, 0 to :data:`MOST_COST_PS`.
        wave_tiles: how many tiles a wave of each step has; 0: its tiles are independent.
        least_chunks: how many tiles at least are taken at once, where they are independent.
        thread_count: of the run.
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
    """For the first of each row of steps that are not shared, how many there are."""
    alone = np.concatenate([[False], ~is_shared, [False]]).astype(np.int8)
    edges = np.diff(alone)
    firsts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    groups = np.zeros(len(is_shared), np.int64)
    groups[firsts] = ends - firsts
    return groups
