"""Choice of the number of rows of a run: the fewest that come near the best rate."""

from __future__ import annotations

from collections.abc import Mapping

#: Rows of one run if nothing is known or can be measured.
DEFAULT_BATCH_SIZE = 64
#: Numbers of rows to measure if nothing is recorded.
TRIED_SIZES = (1, 8, 32, 128, 512)
#: Share of the best rate that is enough: fewer rows need less memory, and less fails with one.
_NEAR = 0.9


def best_batch_size(times: Mapping[int, float], most_rows: int) -> int:
    """Return the fewest rows whose rate is near the best, or the default if nothing is known.

    Args:
        times: Seconds of a run by number of rows.
        most_rows: Rows of a part; a run has no more.
    """
    rates = {rows: rows / seconds for rows, seconds in times.items() if seconds > 0}
    fitting = {rows: rate for rows, rate in rates.items() if rows <= most_rows}
    if not fitting:
        return min(DEFAULT_BATCH_SIZE, most_rows)
    enough = _NEAR * max(fitting.values())
    return min(rows for rows, rate in fitting.items() if rate >= enough)


def best_rate(times: Mapping[int, float]) -> float:
    """Return the best rate in rows per second, or 0 if nothing is known."""
    return max((rows / seconds for rows, seconds in times.items() if seconds > 0), default=0.0)
