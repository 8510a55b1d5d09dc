"""Cuts one node's work into pieces that are worth a thread each, and runs them (:mod:`ortpkg.kernels.intra_op`)."""

from __future__ import annotations

from collections.abc import Callable

from ortpkg.kernels.intra_op import parallel_for, thread_count

#: Multiplications, or elements passed over a few times, that take some 50 µs: less is not worth a second thread.
LEAST_PRODUCTS = 4_000_000
LEAST_ELEMENTS = 49_152
#: More pieces than threads, so that a thread that is not scheduled holds up the others less.
_PIECES_PER_THREAD = 2


def piece_count(amount: int, least: int) -> int:
    """Into how many pieces to cut work of ``amount`` units where a piece should have ``least`` or more."""
    if amount < 2 * least:
        return 1
    threads = thread_count()
    return 1 if threads == 1 else min(amount // least, threads * _PIECES_PER_THREAD)


def over_ranges(work: Callable[[int, int], None], size: int, pieces: int, *, multiple: int = 1) -> None:
    """Calls ``work(start, stop)`` over ``range(size)`` in at most ``pieces`` stretches that start at multiples."""
    if pieces <= 1:
        work(0, size)
        return
    step = -(-size // pieces)
    step = -(-step // multiple) * multiple
    parallel_for(-(-size // step), lambda piece: work(piece * step, min((piece + 1) * step, size)))
