"""The picture of a pipeline: who makes which value, who takes it, and what loops do with it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ortpkg import DrawnGraphs, ModelPackage, ReportWishes
from ortpkg.report.sections.flow_picture import MOST_CARDS, flow_picture
from ortpkg.report.sections.pipeline_flow import (
    CardKind,
    FlowCard,
    FlowLine,
    card_count,
    flow_steps,
)
from tests.report.models import save_named_model
from tests.report.pages import Page, page_of

TINYCHAR = Path(__file__).resolve().parents[2] / "sample_packages" / "tinychar.ortpackage"


def _package(root: Path, names: Sequence[str], pipeline: dict[str, Any] | None = None) -> Path:
    components = {}
    for name in names:
        (root / name).mkdir(parents=True)
        save_named_model(root / name / "model.onnx", name)
        variant = {
            "variant_directory": name,
            "executor_info": {"ort": {"model_file": "model.onnx"}},
        }
        components[name] = {"component_name": name, "variants": {"v": variant}}
    manifest = {"schema_version": "1.0", "package_name": "p", "components": components}
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    if pipeline is not None:
        (root / "pipeline.json").write_text(json.dumps(pipeline), encoding="utf-8")
    return root


def _page(root: Path, **wishes: Any) -> Page:
    return page_of(ModelPackage(root).report(ReportWishes(**wishes)))


def _rows_below(page: Page, heading: str) -> str:
    """What is shown from that heading on."""
    return page.words.partition(heading)[2]


def test_a_loop_says_what_is_carried_and_what_is_gathered() -> None:
    words = _rows_below(_page(TINYCHAR), "What flows through it")

    for said in (
        "inputs tokens int64 [1, prompt]",
        "prefill tokens next_token → first int64 [1, 1]",
        "↻ repeat 120 times decode",
        "decode token = first cache",
        "next next round's first longer next round's cache text gathered from all rounds",
        "outputs text int64 [120, 1, 1]",
    ):
        assert said in words


def test_the_table_has_a_row_for_each_run_of_a_component() -> None:
    words = _rows_below(_page(TINYCHAR), "Steps of the pipeline") or _page(TINYCHAR).words
    assert "prefill once tokens next_token → first int64 [1, 1], new_cache → cache" in words
    assert "decode repeat 120 times token = first, cache" in words


def test_components_without_a_pipeline_are_joined_by_names(tmp_path: Path) -> None:
    page = _page(_package(tmp_path / "p.ortpackage", ("one", "two")))
    words = _rows_below(page, "What flows through it")
    assert "inputs one in float [one N, 3] two in float [two N, 3]" in words
    assert "outputs one out float [one N, 3] two out float [two N, 3]" in words


def test_without_models_the_order_alone_is_shown_and_why(tmp_path: Path) -> None:
    root = _package(tmp_path / "p.ortpackage", ("one", "two"))
    page = _page(root, graphs=DrawnGraphs.NONE)
    assert (
        "Which values flow between them is said by their models, of which not all are planned here."
        in page.words
    )


def test_a_loop_that_may_end_early_says_when(tmp_path: Path) -> None:
    value = {"type": "tensor(float)", "shape": ["N", 3]}
    step = {"component": "one", "inputs": {"one in": "x"}, "outputs": {"one out": "y"}}
    repeat = {
        "times": 9,
        "steps": [step],
        "carry": {"x": "y"},
        "stop": {"value": "y", "equals": 0},
    }
    pipeline = {
        "schema_version": "1.0",
        "inputs": [{"name": "x", **value}],
        "outputs": [{"name": "x", **value}],
        "steps": [{"repeat": repeat}],
    }
    page = _page(_package(tmp_path / "p.ortpackage", ("one",), pipeline))
    assert "repeat, at most 9 times, until y is 0" in page.words


def test_a_pipeline_that_is_damaged_since_it_was_opened_is_no_error(tmp_path: Path) -> None:
    root = tmp_path / "p.ortpackage"
    shutil.copytree(TINYCHAR, root)
    package = ModelPackage(root)
    (root / "pipeline.json").write_text("{}", encoding="utf-8")
    page = page_of(package.report(ReportWishes(graphs=DrawnGraphs.NONE)))
    assert "pipeline.json is not valid; the findings say why." in page.words


def _chain(length: int) -> tuple[FlowCard, ...]:
    """Each card takes what the one before it gives."""
    return tuple(
        FlowCard(
            kind=CardKind.COMPONENT,
            title=f"c{number}",
            lines=(
                FlowLine(value=f"v{number}", is_taken=True, label=f"v{number}"),
                FlowLine(value=f"v{number + 1}", is_taken=False, label=f"v{number + 1}"),
            ),
        )
        for number in range(length)
    )


def test_each_value_that_is_taken_has_a_line_to_who_takes_it() -> None:
    picture = flow_picture(_chain(3), name="p", title="Chain")
    # The first card's value comes from nowhere, the last one's goes nowhere.
    assert picture.count('class="flow-dot"') == 2
    assert picture.count('class="flow-component"') == 3


@pytest.mark.parametrize(("length", "drawn"), [(MOST_CARDS, MOST_CARDS), (500, MOST_CARDS)])
def test_a_picture_has_so_many_cards_at_most(length: int, drawn: int) -> None:
    picture = flow_picture(_chain(length), name="p", title="Chain")
    assert picture.count('class="flow-component"') == drawn


def test_a_card_with_many_values_counts_the_rest_of_what_it_takes_and_gives() -> None:
    lines = tuple(
        FlowLine(value=f"v{n}", is_taken=is_taken, label=f"v{n}")
        for is_taken, numbers in ((True, range(20)), (False, range(20, 30)))
        for n in numbers
    )
    picture = flow_picture(
        (FlowCard(kind=CardKind.COMPONENT, title="c", lines=lines),), name="p", title="Many"
    )
    assert "takes 12 more values" in picture
    assert "gives 2 more values" in picture
    assert ">v7</text>" in picture
    assert ">v8</text>" not in picture
    assert ">v20</text>" in picture


def test_cards_in_loops_are_counted_and_told_with_their_loops() -> None:
    inner = FlowCard(kind=CardKind.REPEAT, title="repeat 2 times", body=_chain(2))
    outer = FlowCard(kind=CardKind.REPEAT, title="repeat 3 times", body=(inner,))
    assert card_count((outer,)) == 4
    assert [(each.component, each.loops) for each in flow_steps((outer,))] == [
        ("c0", "repeat 3 times, repeat 2 times"),
        ("c1", "repeat 3 times, repeat 2 times"),
    ]


def test_a_name_with_markup_is_drawn_as_text() -> None:
    card = FlowCard(kind=CardKind.COMPONENT, title="<script>\u202e")
    picture = flow_picture((card,), name="p", title="Hostile")
    assert "<script>" not in picture
    assert "&lt;script&gt;\\u202e" in picture
