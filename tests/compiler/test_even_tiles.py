"""Tiles are cut so that threads are done at the same time."""

from __future__ import annotations

import pytest

from ortpkg.compiler.schedules.even_tiles import even_tile


@pytest.mark.parametrize(
    ("outer", "inner", "cost", "tile"),
    [
        (1, 9, 100, (1, 9)),  # too little work for two
        (1, 56, 100, (1, 14)),  # four tiles
        (8, 7, 200, (2, 7)),  # four along the other dimension, which seven rows do not give
        (16, 300, 100, (2, 20)),  # short ones, 120 of them
        (3, 3, 1_000_000, (1, 1)),  # none is short
        (0, 0, 100, (1, 1)),
    ],
)
def test_four_threads_end_together(
    outer: int, inner: int, cost: float, tile: tuple[int, int]
) -> None:
    assert even_tile(outer, inner, cost=cost, least=900, most=4000) == tile


def test_weights_of_a_tile_stay_in_the_cache() -> None:
    assert even_tile(64, 1, cost=10, least=0, most=10_000) == (16, 1)
    assert even_tile(64, 1, cost=10, least=0, most=10_000, most_outer=3)[0] <= 3


def test_a_dimension_too_long_for_the_pieces_that_are_compared_is_cut_as_weights_ask() -> None:
    assert even_tile(1000, 1, cost=10, least=0, most=10_000, most_outer=3) == (3, 1)
