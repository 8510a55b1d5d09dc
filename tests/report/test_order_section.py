"""The execution order: what the page says is what the session planned, however long it is."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ortpkg import InferenceSession, ModelPackage, ReportWishes
from ortpkg.foundations.drawing.palette import fill_kind
from ortpkg.report.order_picture import MOST_MARKS, order_figure, provider_changes
from ortpkg.report.report_subject import PlannedModel
from ortpkg.report.sections.order_section import order_section
from ortpkg.report.sections.section import Status
from ortpkg.runtime.session.session_plan import GraphPlan, PlannedCopy, SessionPlan
from tests.report.conftest import DIGITS
from tests.report.models import save_named_model
from tests.report.pages import Page, page_of
from tests.report.subjects import planned_model, subject_of
from tests.session.planned_graphs import planned_graph

LLVM, CPU = "LLVMExecutionProvider", "CPUExecutionProvider"


@pytest.fixture(scope="module")
def digits_plan() -> Iterator[SessionPlan]:
    with ModelPackage(DIGITS).best_variant(backend="embedded").create_session() as session:
        yield session.get_plan()


def test_the_table_has_each_step_of_the_session_plan(
    digits_page: Page, digits_plan: SessionPlan
) -> None:
    words = digits_page.words
    for node in digits_plan.graph.nodes:
        cells = f"{node.step} {node.op_type} {node.name} {node.provider} {node.kernel}"
        domain = f"{node.domain}:" if node.domain else ""
        assert cells.replace(f" {node.op_type}", f" {domain}{node.op_type}", 1) in words
    kernels = ", ".join(f"{n} {name}" for name, n in digits_plan.graph.kernel_counts.items())
    assert f"main graph: {len(digits_plan.graph.nodes)} steps; kernels: {kernels}" in words


def test_the_headline_counts_the_steps(digits_page: Page, digits_plan: SessionPlan) -> None:
    expected = f"{len(digits_plan.graph.nodes)} steps on {CPU}"
    assert expected in digits_page.texts_in("span")


def test_a_compiled_partition_is_one_step() -> None:
    page = page_of(ModelPackage(DIGITS).report(ReportWishes(eps=("llvm",))))
    assert f"1 step on {LLVM}" in page.texts_in("span")
    assert "compiled as LLVM__1" in page.texts_in("span")


def test_the_section_says_how_often_the_provider_changes() -> None:
    graph = _graph(["A", "B", "C"], [CPU, LLVM, CPU])
    section = order_section(subject_of(DIGITS, planned_model(graph)))
    assert section.headline == f"3 steps on {CPU}, {LLVM}; the provider changes 2 times"
    (model,) = section.models
    assert [each.summary for each in model.graphs] == [
        "3 steps; kernels: 3 elementwise; the execution provider changes 2 times (dotted)"
    ]


def test_changes_that_are_too_many_to_mark_are_counted_alone() -> None:
    graph = _graph(["A"] * 300, [CPU, LLVM] * 150)
    section = order_section(subject_of(DIGITS, planned_model(graph)))
    (order,) = section.models[0].graphs
    assert order.summary.endswith("the execution provider changes 299 times")
    assert "stroke-dasharray" not in order.picture


def test_subgraphs_are_listed_by_their_way() -> None:
    inner = replace(_graph(["Add"], [CPU]), path="loop_0.body")
    graph = replace(_graph(["Loop"], [CPU]), subgraphs=(inner,))
    section = order_section(subject_of(DIGITS, planned_model(graph)))
    assert [graph.name for graph in section.models[0].graphs] == ["main graph", "graph loop_0.body"]


def test_a_model_without_a_plan_is_named_with_the_reason() -> None:
    obstacle = "No variant fits this machine."
    model = PlannedModel(component_name="c", variant_name="", planned_for="", obstacle=obstacle)
    section = order_section(subject_of(DIGITS, model))
    assert (section.headline, section.status) == ("No plan", Status.WARN)
    assert [(each.title, each.obstacle) for each in section.models] == [("c", obstacle)]


def test_a_shape_stands_for_steps_of_one_row_that_follow_each_other() -> None:
    graph = _graph(["Conv", "Relu", "Relu", "Conv"], [CPU, CPU, LLVM, LLVM])
    boxes = _boxes(order_figure(graph, [LLVM, CPU], name="o", title="t"))
    assert [(title, kind.split()[0]) for title, kind in boxes] == [
        (f"steps 0 to 1: 2 of Conv, Relu on {CPU}", fill_kind(1)),
        (f"steps 2 to 3: 2 of Relu, Conv on {LLVM}", fill_kind(0)),
        (f"step 0: Conv node_0 on {CPU}, elementwise", fill_kind(1)),
        (f"step 3: Conv node_3 on {LLVM}, elementwise", fill_kind(0)),
        (f"step 1: Relu node_1 on {CPU}, elementwise", fill_kind(1)),
        (f"step 2: Relu node_2 on {LLVM}, elementwise", fill_kind(0)),
    ]
    assert provider_changes(graph.nodes) == (2,)


def test_fused_nodes_of_a_provider_share_a_row() -> None:
    graph = _graph(["LLVM__0", "Relu", "LLVM__1"], [LLVM, CPU, LLVM])
    kernels = ("compiled", "elementwise", "compiled")
    nodes = (
        replace(node, kernel=kernel) for node, kernel in zip(graph.nodes, kernels, strict=True)
    )
    drawn = order_figure(replace(graph, nodes=tuple(nodes)), [CPU, LLVM], name="o", title="t")
    assert drawn.count('>LLVM <tspan class="small">2</tspan>') == 2  # the provider, the operator
    assert "step 2: LLVM__1 node_2 on" in drawn


def test_pictures_of_many_models_name_no_steps_and_take_a_fifth() -> None:
    graph = _graph([f"Op{step % 9}" for step in range(400)], [CPU] * 400)
    few, many = (
        order_section(subject_of(DIGITS, *[planned_model(graph)] * count)).models[0].graphs[0]
        for count in (7, 8)
    )
    assert "step 7: Op7 node_7 on" in few.picture
    assert "step 7: Op7 node_7 on" not in many.picture
    assert len(many.picture) < len(few.picture) / 4
    shapes = re.findall("M[^z]+z", many.picture)
    assert len(shapes) == len(_boxes(few.picture)) == 401


def test_only_compiled_operators_lose_their_number() -> None:
    drawn = order_figure(_graph(["Op__1", "Op__2"], [CPU, CPU]), [CPU], name="o", title="t")
    assert ">Op__1 <tspan" in drawn
    assert ">Op__2 <tspan" in drawn


def test_operators_beyond_the_rows_share_one_that_counts_the_rest() -> None:
    operators = [f"Op{number}" for number in range(20) for _ in range(20 - number)]
    drawn = order_figure(_graph(operators, [CPU] * len(operators)), [CPU], name="o", title="t")
    rows = re.findall(r'>(Op\d+|other operators) <tspan class="small">(\d+)<', drawn)
    assert rows == [
        *((f"Op{number}", str(20 - number)) for number in range(15)),
        ("other operators", str(5 + 4 + 3 + 2 + 1)),
    ]


def test_as_many_changes_as_can_be_marked_are_marked() -> None:
    graph = _graph(["A"] * (MOST_MARKS + 1), ([CPU, LLVM] * MOST_MARKS)[: MOST_MARKS + 1])
    copies = [
        PlannedCopy(step=step, value="v", source="Cpu", target="Npu", nbytes=4, duration_s=None)
        for step in range(MOST_MARKS + 1)
    ]
    drawn = order_figure(replace(graph, copies=tuple(copies)), [CPU, LLVM], name="o", title="t")
    assert drawn.count("stroke-dasharray") == MOST_MARKS
    assert drawn.count('class="mark"') == MOST_MARKS


def test_the_axis_counts_the_steps_that_there_are() -> None:
    drawn = order_figure(_graph(["A"] * 10, [CPU] * 10), [CPU], name="o", title="t")
    ticks = re.findall(r'text-anchor="middle"[^>]*>(\d+)<', drawn)
    assert ticks
    assert max(map(int, ticks)) < 10


def test_marks_show_where_values_are_copied_and_providers_change() -> None:
    graph = _graph(["A", "B", "C"], [CPU, LLVM, CPU])
    copy = PlannedCopy(step=1, value="v", source="Cpu", target="Npu", nbytes=4, duration_s=None)
    drawn = order_figure(replace(graph, copies=(copy,)), [CPU, LLVM], name="o", title="t")
    assert drawn.count('class="mark"') == 1
    assert drawn.count("stroke-dasharray") == 2
    assert "changes 2 times; 1 value is copied between memories" in drawn


@pytest.mark.parametrize("count", [1, 400, 50_000])
def test_the_picture_stays_small_and_within_its_borders(count: int) -> None:
    operators = [f"Op{step % 40}" for step in range(count)]
    graph = _graph(operators, [(CPU, LLVM)[step % 3 == 0] for step in range(count)])
    drawn = order_figure(graph, [CPU, LLVM], name="o", title="t")
    assert len(drawn) < 500_000
    width = int(re.search(r'viewBox="0 0 (\d+)', drawn)[1])  # type: ignore[index]
    boxes = [each for each in ET.fromstring(drawn).iter() if each.tag.endswith("rect")]
    assert 2 <= len(boxes) <= 3_100
    for each in boxes:
        assert float(each.attrib["x"]) + float(each.attrib["width"]) <= width
    assert count < 16 or "other operators" in drawn


def test_long_orders_are_counted_and_not_all_listed() -> None:
    models = [planned_model(_graph(["Sin"] * 400, [CPU] * 400))] * 7
    section = order_section(subject_of(DIGITS, *models))
    assert section.headline == f"2800 steps on {CPU}"
    listed = [len(model.graphs[0].steps) for model in section.models]
    assert listed == [142] * 7
    sentences = [model.graphs[0].left_out for model in section.models]
    assert sentences[6] == "258 more steps are not shown here; ortpkg plan --nodes has all."


def test_names_in_the_picture_are_escaped(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>\u202e\x07&\"'"
    path = tmp_path / "named.onnx"
    save_named_model(path, hostile)
    with InferenceSession(path) as session:
        plan = session.get_plan()
    drawn = order_figure(plan.graph, plan.providers, name="o", title=hostile)
    assert "<script" not in drawn
    assert ET.fromstring(drawn) is not None
    assert "\\u202e\\x07" in drawn


def _graph(operators: Sequence[str], providers: Sequence[str]) -> GraphPlan:
    graph = planned_graph(len(operators), [])
    return replace(
        graph,
        nodes=tuple(
            replace(node, op_type=op_type, provider=provider)
            for node, op_type, provider in zip(graph.nodes, operators, providers, strict=True)
        ),
    )


def _boxes(drawn: str) -> list[tuple[str, str]]:
    """(title, class) of each shape that has a title."""
    found = re.findall(r'<rect[^>]* class="([^"]*)"><title>([^<]*)</title>', drawn)
    return [(title, kind) for kind, title in found]
