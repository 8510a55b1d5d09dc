"""The picture of a memory pattern: every value in its place, whatever the plan is."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.runtime.session.memory_timeline import memory_timeline_figure, memory_timeline_svg
from ortpkg.runtime.session.session_plan import GraphPlan
from tests.session.conftest import CHAIN, session_of
from tests.session.planned_graphs import planned_graph, planned_value

_SVG = "{http://www.w3.org/2000/svg}"


def _plan(text: str) -> GraphPlan:
    with session_of(text) as session:
        return session.get_plan().graph


def _figure(graph: GraphPlan, **options: int) -> ET.Element:
    return ET.fromstring(memory_timeline_figure(graph, "memory", name="m", **options))


def _boxes(picture: ET.Element) -> dict[str, list[ET.Element]]:
    """Boxes of values by the kind of their fill."""
    found: dict[str, list[ET.Element]] = {}
    for each in picture.iter():
        kind, _, rest = each.get("class", "").partition(" ")
        if rest == "outlined":
            found[kind] = list(each)
    return found


def _texts(picture: ET.Element) -> list[str]:
    return ["".join(each.itertext()) for each in picture.iter() if each.tag.endswith("text")]


def _number(element: ET.Element, key: str) -> float:
    return float(element.get(key, "nan"))


def test_a_document_has_one_box_per_laid_out_value_within_it() -> None:
    graph = _plan(CHAIN.replace("[N]", "[1000]"))
    root = ET.fromstring(memory_timeline_svg(graph, "chain & <co>\x1b"))
    boxes = [box for boxes in _boxes(root).values() for box in boxes]
    assert len(boxes) == sum(value.offset is not None for value in graph.values) == 5
    for box in boxes:
        x, y, width, height = (_number(box, key) for key in ("x", "y", "width", "height"))
        assert 0 <= x <= x + width <= _number(root, "width")
        assert 0 <= y <= y + height <= _number(root, "height")
    assert "chain & <co>\\x1b" in _texts(root)


def test_values_of_one_buffer_have_one_colour_and_a_dot_between_them() -> None:
    values = [
        planned_value("a", (0, 100), (0, 2)),
        planned_value("b", (0, 100), (2, 3), buffer="a"),
        planned_value("c", (100, 50), (1, 3)),
    ]
    picture = _figure(planned_graph(4, values))
    titles = {
        kind: [title.text for box in boxes for title in box]
        for kind, boxes in _boxes(picture).items()
    }
    assert titles == {
        "ep-0": [
            "a: 100 B at byte 0, steps 0 to 2, buffer 0",
            "b: 100 B at byte 0, steps 2 to 3, buffer 0",
        ],
        "ep-1": ["c: 50 B at byte 100, steps 1 to 3, buffer 1"],
    }
    (dot,) = picture.iter("circle")
    assert _number(dot, "cx") == _number(_boxes(picture)["ep-0"][1], "x")


def test_the_peak_is_marked_at_its_step_and_said() -> None:
    values = [planned_value("a", (0, 1000), (0, 3)), planned_value("b", (1000, 500), (2, 2))]
    picture = _figure(planned_graph(4, values))
    assert "peak 1.5 kB, reached at step 2 (Op2)" in _texts(picture)
    assert "in use: at most 1.5 kB, at step 2" in _texts(picture)
    (mark,) = (each for each in picture.iter("polygon") if each.get("class") == "mark")
    (upper,) = _boxes(picture)["ep-1"]
    tip_x, tip_y = (float(each) for each in mark.get("points", "").split()[2].split(","))
    assert _number(upper, "x") < tip_x < _number(upper, "x") + _number(upper, "width")
    assert tip_y == pytest.approx(_number(upper, "y"), abs=0.01)
    assert "2 values in 2 buffers over 4 steps; peak 1.5 kB" in "".join(picture.itertext())


def test_each_memory_has_a_panel_of_its_own() -> None:
    values = [
        planned_value("a", (0, 100), (0, 1)),
        planned_value("b", (0, 30), (1, 2), device="Gpu"),
    ]
    texts = _texts(_figure(planned_graph(3, values)))
    assert "Cpu: peak 100 B, reached at step 0 (Op0)" in texts
    assert "Gpu: peak 30 B, reached at step 1 (Op1)" in texts


def test_of_too_many_values_the_largest_are_drawn_and_the_others_counted() -> None:
    values = [planned_value(f"v{number}", (0, number), (number, number)) for number in range(1, 50)]
    picture = _figure(planned_graph(60, values, unknown=7), most_boxes=9)
    titles = [
        title.text or "" for boxes in _boxes(picture).values() for box in boxes for title in box
    ]
    assert sorted(title.partition(":")[0] for title in titles) == [f"v{n}" for n in range(41, 50)]
    assert (
        "40 smaller values are left out; 7 values whose size only a run tells are left out"
        in _texts(picture)
    )


def test_a_plan_without_known_sizes_says_so() -> None:
    picture = _figure(_plan(CHAIN.replace("[N]", "[N, 10]")))
    assert "no value lies in a block: there are no intermediate values of a known size" in _texts(
        picture
    )


def test_an_empty_graph_is_still_a_picture() -> None:
    assert ET.fromstring(memory_timeline_svg(planned_graph(0, []), "empty")) is not None


def test_1500_values_stay_wide_enough_to_be_seen_and_small_enough_to_be_sent() -> None:
    values = [
        planned_value(f"encoder.layer.{number}/output", (number % 7 * 64, 64), (number, number + 2))
        for number in range(1500)
    ]
    text = memory_timeline_figure(planned_graph(1500, values), "memory", name="m")
    picture = ET.fromstring(text)
    assert all(_number(box, "width") >= 1 for boxes in _boxes(picture).values() for box in boxes)
    assert len(text) < 400_000


def test_names_of_strangers_do_no_harm() -> None:
    name = "\"></title><script>alert(1)</script>'\x00\u202e" + "x" * 5000
    text = memory_timeline_figure(
        planned_graph(2, [planned_value(name, (0, 9), (0, 1))]), name, name="m"
    )
    assert "<script" not in text
    assert "\u202e" not in text
    assert "style=" not in text
    assert len(text) < 20_000


@st.composite
def _graphs(draw: st.DrawFn) -> GraphPlan:
    """Plans whose values lie above each other, with gaps."""
    steps = draw(st.integers(1, 40))
    tops = {"Cpu": 0, "Gpu": 0}
    values = []
    for number in range(draw(st.integers(0, 12))):
        device = draw(st.sampled_from(list(tops)))
        offset = tops[device] + draw(st.integers(0, 10**9))
        nbytes = draw(st.integers(1, 10**12))
        first = draw(st.integers(0, steps - 1))
        last = draw(st.none() | st.integers(first, steps + 1))
        values.append(planned_value(str(number), (offset, nbytes), (first, last), device=device))
        tops[device] = offset + nbytes
    return planned_graph(steps, values)


@settings(max_examples=60)
@given(_graphs())
def test_nothing_is_drawn_outside_the_picture(graph: GraphPlan) -> None:
    picture = _figure(graph)
    width, height = _number(picture, "width") + 0.01, _number(picture, "height") + 0.01
    for each in picture.iter():
        for key, most in (("x", width), ("x1", width), ("y", height), ("y1", height)):
            assert 0 <= float(each.get(key, "0")) <= most
        if each.tag == "rect":
            assert _number(each, "x") + _number(each, "width") <= width
            assert _number(each, "y") + _number(each, "height") <= height
