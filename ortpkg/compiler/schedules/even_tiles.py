"""Chooses sizes of tiles such that all threads have work until the end."""

from __future__ import annotations

#: Number of threads to keep busy until the end.
USUAL_THREADS = 4
#: Most pieces of a dimension that are compared.
_MOST_PIECES = 64


def even_tile(
    outer: int, inner: int, *, cost: float, least: float, most: float, most_outer: int | None = None
) -> tuple[int, int]:
    """Return the size of tiles with which the last thread ends as early as possible.

    Tiles cost at least ``least``, unless one tile does everything, and at most ``most`` if
    possible. Of equally good tiles, the larger one is chosen.

    Args:
        outer, inner: sizes of the dimensions.
        cost: cost of one position.
        least, most: bounds for the cost of a tile.
        most_outer: largest size of a tile along the outer dimension.
    """
    outer, inner = max(outer, 1), max(inner, 1)
    tiles = {
        (_pieces(outer, first), _pieces(inner, second))
        for first in range(1, min(outer, _MOST_PIECES) + 1)
        for second in range(1, min(inner, _MOST_PIECES) + 1)
    }
    bound = outer if most_outer is None else max(most_outer, 1)
    # even the shortest compared pieces of a very long dimension may be too long
    allowed = [candidate for candidate in tiles if candidate[0] <= bound] or [
        (bound, length) for _, length in tiles
    ]
    long = [candidate for candidate in allowed if candidate[0] * candidate[1] * cost >= least]
    short = [
        candidate for candidate in long or allowed if candidate[0] * candidate[1] * cost <= most
    ]
    chosen = short or [min(long or allowed, key=lambda candidate: candidate[0] * candidate[1])]

    def last_done(tile: tuple[int, int]) -> tuple[int, int, int]:
        count = _pieces(outer, tile[0]) * _pieces(inner, tile[1])
        size = tile[0] * tile[1]
        return _pieces(count, USUAL_THREADS) * size, -size, -tile[1]

    return min(chosen, key=last_done)


def _pieces(size: int, length: int) -> int:
    return -(-size // length)
