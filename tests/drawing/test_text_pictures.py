"""Pictures made of characters: never wider than they may be, and nothing that is there is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortpkg.foundations.drawing.text_pictures import (
    cell,
    cell_map,
    cell_width,
    column_chart,
    column_of,
    letter,
)

_WIDTHS = st.integers(1, 120)
_VALUES = st.lists(st.integers(0, 10**15), min_size=1, max_size=300)
_KINDS = st.lists(st.integers(0, 4), min_size=1, max_size=300)


def test_a_chart_has_a_column_for_each_value() -> None:
    assert column_chart([0, 1, 2, 4, 8], 5) == [" ▁▂▄█"]
    assert column_chart([0, 2, 4], 3, 2) == ["  █", " ██"]
    assert column_chart([0, 1, 2, 4], 4, is_unicode=False) == [" .:#"]


def test_few_values_have_wide_columns_and_many_share_theirs() -> None:
    assert column_chart([4, 2], 8) == ["████▄▄▄▄"]
    assert column_chart([1, 8, 4, 4], 2) == ["█▄"]


@pytest.mark.parametrize("values", [[], [0], [0, 0, 0]])
def test_a_chart_of_nothing_is_empty(values: list[int]) -> None:
    assert [line.strip() for line in column_chart(values, 10, 2)] == ["", ""]


@given(_VALUES, _WIDTHS, st.integers(1, 4), st.booleans())
def test_a_chart_keeps_to_its_size_and_shows_the_greatest_full(
    values: list[int], width: int, height: int, is_unicode: bool
) -> None:
    lines = column_chart(values, width, height, is_unicode=is_unicode)
    assert len(lines) == height
    assert len({len(line) for line in lines}) == 1
    assert 1 <= len(lines[0]) <= width
    assert is_unicode or "".join(lines).isascii()
    if any(values):
        place = column_of(values.index(max(values)), len(values), width)
        assert {line[place] for line in lines} == {"█" if is_unicode else "#"}


@given(_VALUES, st.integers(1, 4))
def test_what_is_more_than_nothing_is_seen(values: list[int], height: int) -> None:
    lowest = column_chart(values, len(values), height)[-1]
    assert [character != " " for character in lowest] == [value > 0 for value in values]


def test_a_map_has_a_cell_for_each_thing() -> None:
    assert cell_map([0, 0, 1, 0], 80) == [(0, 2), (1, 1), (0, 1)]
    assert cell_map([], 80) == []


@given(_KINDS, _WIDTHS)
def test_a_map_keeps_to_its_width(kinds: list[int], width: int) -> None:
    cells = sum(count for _, count in cell_map(kinds, width))
    assert cells * cell_width(len(kinds), width) <= max(width, 1)
    assert cells == min(len(kinds), width)


@given(st.integers(0, 299), st.integers(1, 300), _WIDTHS)
def test_one_thing_of_another_kind_is_seen_where_it_is(place: int, count: int, width: int) -> None:
    place %= count
    kinds = [7] * (count + 1)  # two of the other at least, so that this one is the rarer
    kinds.append(7)
    kinds[place] = 3
    count += 2
    shown = [kind for kind, cells in cell_map(kinds, width) for _ in range(cells)]
    column = column_of(place, count, width) // cell_width(count, width)
    assert [number for number, kind in enumerate(shown) if kind == 3] == [column]


def test_the_first_column_of_a_thing() -> None:
    assert [column_of(index, 3, 30) for index in range(3)] == [0, 8, 16]
    assert [column_of(index, 6, 3) for index in range(6)] == [0, 0, 1, 1, 2, 2]


@given(st.integers(1, 500), _WIDTHS)
def test_things_stand_in_order_within_the_width(count: int, width: int) -> None:
    columns = [column_of(index, count, width) for index in range(count)]
    assert columns == sorted(columns)
    assert columns[0] == 0
    assert columns[-1] + cell_width(count, width) <= width


def test_letters_begin_anew_after_the_last() -> None:
    assert "".join(letter(number) for number in (0, 1, 25, 26)) == "ABZA"
    assert (cell(1, 4), cell(1, 4, is_unicode=False), cell(1, 1)) == ("B───", "B---", "B")
