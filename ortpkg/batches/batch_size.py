"""How many rows a run takes: the fewest that come near the best rate."""

from __future__ import annotations

from collections.abc import Mapping

#: Rows of one run where nobody says how many, and nothing can be measured.
DEFAULT_BATCH_SIZE = 64
#: What is tried where nothing is recorded.
TRIED_SIZES = (1, 8, 32, 128, 512)
#: Of the best rate, what is near enough: fewer rows take less memory, and less goes wrong with one.
_NEAR = 0.9


def best_batch_size(times: Mapping[int, float], most_rows: int) -> int:
    """The fewest rows whose rate is near the best; the default where nothing is known.

    Args:
        times: rows → seconds of a run.
        most_rows: of a part; a run takes no more.
    """
    rates = {rows: rows / seconds for rows, seconds in times.items() if seconds > 0}
    fitting = {rows: rate for rows, rate in rates.items() if rows <= most_rows}
    if not fitting:
        return min(DEFAULT_BATCH_SIZE, most_rows)
    enough = _NEAR * max(fitting.values())
    return min(rows for rows, rate in fitting.items() if rate >= enough)


def best_rate(times: Mapping[int, float]) -> float:
    """Rows a second, of the number of rows that is best; 0 where nothing is known."""
    return max((rows / seconds for rows, seconds in times.items() if seconds > 0), default=0.0)
