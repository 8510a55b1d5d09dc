"""Tables fit the width that they are given; names and numbers stay whole, whatever the width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortpkg.cli.table_layout import Column, lay_out
from ortpkg.cli.wrapping import display_width
from ortpkg.foundations.ep_names import short_ep_names

COLUMNS = (
    Column("variant"),
    Column("ep", short=short_ep_names),
    Column("data types", wraps=12, drops=2),
    Column("architecture", drops=1),
    Column("own size", is_numeric=True),
)
ROWS = (
    ("cpu-int8", "CPUExecutionProvider", "float, int32, int8, uint8", "x86_64_v4", "34.0 kB"),
    ("openvino-npu", "OpenVINOExecutionProvider", "float", "any", "1.2 MB"),
)


def shown(width: int | None) -> list[str]:
    lines = lay_out(COLUMNS, ROWS, width)
    return [*lines.head, *lines.body]


@pytest.mark.parametrize("width", [None, 200, 95])
def test_a_table_that_fits_is_as_it_is(width: int | None) -> None:
    assert shown(width) == [
        (
            "variant       ep                         data types                 architecture  own"
            " size"
        ),
        (
            "cpu-int8      CPUExecutionProvider       float, int32, int8, uint8  x86_64_v4     "
            " 34.0 kB"
        ),
        (
            "openvino-npu  OpenVINOExecutionProvider  float                      any            "
            " 1.2 MB"
        ),
    ]


def test_short_names_come_first() -> None:
    assert shown(75) == [
        "variant       ep        data types                 architecture  own size",
        "cpu-int8      cpu       float, int32, int8, uint8  x86_64_v4      34.0 kB",
        "openvino-npu  openvino  float                      any             1.2 MB",
    ]


def test_then_texts_and_headings_are_broken_between_words() -> None:
    assert shown(60) == [
        "                                                         own",
        "variant       ep        data types     architecture     size",
        "cpu-int8      cpu       float, int32,  x86_64_v4     34.0 kB",
        "                        int8, uint8",
        "openvino-npu  openvino  float          any            1.2 MB",
    ]


def test_then_columns_are_left_out_in_their_order_which_is_told() -> None:
    assert lay_out(COLUMNS, ROWS, 58).left_out == ("architecture",)
    assert lay_out(COLUMNS, ROWS, 40).left_out == ("data types", "architecture")
    assert shown(40) == [
        "variant       ep        own size",
        "cpu-int8      cpu        34.0 kB",
        "openvino-npu  openvino    1.2 MB",
    ]


def test_at_last_each_row_is_a_block_with_everything() -> None:
    assert shown(30) == [
        "variant cpu-int8",
        "  ep            CPUExecutionProvider",
        "  data types    float, int32,",
        "                int8, uint8",
        "  architecture  x86_64_v4",
        "  own size      34.0 kB",
        "",
        "variant openvino-npu",
        "  ep            OpenVINOExecutionProvider",
        "  data types    float",
        "  architecture  any",
        "  own size      1.2 MB",
    ]


def test_a_block_leaves_out_what_is_empty() -> None:
    assert lay_out((Column("name"), Column("label")), [("a" * 30, "")], 10).body == (
        f"name {'a' * 30}",
    )


def test_a_table_without_rows_is_its_head() -> None:
    assert lay_out(COLUMNS, [], 80).body == ()


CELLS = st.text(st.sampled_from("abü模1. "), max_size=40).map(str.strip)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS, CELLS), max_size=4), st.integers(20, 160))
def test_every_word_stays_whole_at_every_width(rows: list[tuple[str, ...]], width: int) -> None:
    lines = lay_out(COLUMNS, rows, width)
    words = {word for row in rows for cell in row for word in cell.split()}
    words |= {word for column in COLUMNS for word in column.heading.split()}
    assert {word for line in (*lines.head, *lines.body) for word in line.split()} <= words
    if lines.head:  # in a block a long name may stick out
        assert max(map(display_width, (*lines.head, *lines.body))) <= width
    if not lines.left_out:
        assert {cell for row in rows for cell in row[0].split()} <= {
            word for line in lines.body for word in line.split()
        }
