"""The first picture of a graph: its outermost items, in layers, within bounds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from ortpkg.report.graph_facts import GraphStage, NodeFact
from ortpkg.report.sections.graph_overview import MOST_ITEMS, overview_picture


def stage_of(*nodes: tuple[str, str, Sequence[str], Sequence[str]]) -> GraphStage:
    return GraphStage(
        nodes=tuple(
            NodeFact(name=name, op_type=op, inputs=tuple(takes), outputs=tuple(gives), provider=0)
            for name, op, takes, gives in nodes
        ),
        values={},
        inputs=("x",),
        outputs=(),
    )


def picture_of(stage: GraphStage) -> str:
    return overview_picture(stage, name="p", title="Graph of m")


def heads(picture: str) -> dict[str, tuple[float, float]]:
    """The label of each item, with its place."""
    pattern = r'<text x="([\d.]+)" y="([\d.]+)" class="head">([^<]*)</text>'
    return {label: (float(x), float(y)) for x, y, label in re.findall(pattern, picture)}


def test_an_item_stands_below_what_it_takes_values_of_and_a_line_leads_to_it() -> None:
    picture = picture_of(
        stage_of(
            ("a", "Relu", ["x"], ["p"]),
            ("b", "Neg", ["x"], ["q"]),
            ("c", "Add", ["p", "q"], ["y"]),
        )
    )
    places = heads(picture)

    assert places["Relu"][1] == places["Neg"][1] < places["Add"][1]
    assert places["Relu"][0] < places["Neg"][0]
    assert picture.count("<line") == 2
    assert 'aria-labelledby="p-title p-desc"' in picture
    assert "3 groups and nodes of the outermost level" in picture


def test_modules_are_one_item_with_their_operators() -> None:
    picture = picture_of(
        stage_of(
            ("/enc/a", "MatMul", ["x"], ["p"]),
            ("/enc/b", "MatMul", ["p"], ["q"]),
            ("/enc/c", "Add", ["q"], ["r"]),
            ("/head/d", "Relu", ["r"], ["s"]),
            ("/head/e", "Gemm", ["s"], ["y"]),
        )
    )

    assert list(heads(picture)) == ["enc", "head"]
    assert "3 nodes: 2 MatMul, 1 Add" in picture
    assert picture.count("<line") == 1


def test_what_does_not_fit_is_counted() -> None:
    names = ["x", *(f"v{number}" for number in range(60))]
    nodes = [(f"n{made}", "Relu", [takes], [made]) for takes, made in pairwise(names)]
    picture = picture_of(stage_of(*nodes))

    assert picture.count('class="head"') == MOST_ITEMS
    assert f"and {60 - MOST_ITEMS} more, which follow them" in picture


def test_a_layer_has_as_many_items_as_the_page_is_wide() -> None:
    picture = picture_of(stage_of(*((f"n{n}", f"Op{n}", ["x"], [f"v{n}"]) for n in range(12))))
    rows: dict[float, list[float]] = {}
    for x, y in heads(picture).values():
        rows.setdefault(y, []).append(x)

    assert [len(row) for row in rows.values()] == [4, 4, 4]
    assert max(x for row in rows.values() for x in row) < 1108


def test_names_of_strangers_are_text_and_an_empty_graph_is_a_picture() -> None:
    picture = picture_of(stage_of(("<script>", "<b>", ["x"], ["y"])))

    assert "<script>" not in picture
    assert "<b>" not in picture
    assert 'height="' in picture_of(stage_of())
