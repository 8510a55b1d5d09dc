"""How large tiles are, so that all threads have work until the end."""

from __future__ import annotations

#: Threads that are to be busy until the end.
USUAL_THREADS = 4
#: Pieces that a dimension is cut into at most, as far as that is compared.
_MOST_PIECES = 64


def even_tile(
    outer: int, inner: int, *, cost: float, least: float, most: float, most_outer: int | None = None
) -> tuple[int, int]:
    """How many of two dimensions a tile has, so that the last thread is done as soon as can be.

    Tiles cost at least ``least``, unless one does it all, and at most ``most`` where that can be;
    of those that are equally good, the larger ones are taken.

    Args:
        outer, inner: sizes of the dimensions.
        cost: of one place of both.
        least, most: of a tile.
        most_outer: how many of the outer dimension a tile may have.
    """
    outer, inner = max(outer, 1), max(inner, 1)
    tiles = {
        (_pieces(outer, first), _pieces(inner, second))
        for first in range(1, min(outer, _MOST_PIECES) + 1)
        for second in range(1, min(inner, _MOST_PIECES) + 1)
    }
    bound = outer if most_outer is None else max(most_outer, 1)
    # of a very long dimension even the shortest pieces that are compared may be too long
    allowed = [each for each in tiles if each[0] <= bound] or [(bound, each) for _, each in tiles]
    long = [each for each in allowed if each[0] * each[1] * cost >= least]
    short = [each for each in long or allowed if each[0] * each[1] * cost <= most]
    chosen = short or [min(long or allowed, key=lambda each: each[0] * each[1])]

    def last_done(tile: tuple[int, int]) -> tuple[int, int, int]:
        count = _pieces(outer, tile[0]) * _pieces(inner, tile[1])
        size = tile[0] * tile[1]
        return _pieces(count, USUAL_THREADS) * size, -size, -tile[1]

    return min(chosen, key=last_done)


def _pieces(size: int, length: int) -> int:
    return -(-size // length)
