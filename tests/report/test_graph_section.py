"""The section of graphs: what stands there without a script, and what the script is given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ortpkg import ModelPackage, ReportWishes
from ortpkg.report.graph_payload import unpacked_text
from ortpkg.report.report_subject import PlannedModel
from ortpkg.report.report_wishes import DrawnGraphs
from ortpkg.report.sections import graph_section as module
from ortpkg.report.sections.graph_section import GraphPart, graph_section
from ortpkg.report.sections.section import Status
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions
from tests.report.conftest import DIGITS
from tests.report.graph_samples import BRANCHES, MIXED, model_file
from tests.report.models import package_called
from tests.report.pages import Page, page_of
from tests.report.subjects import subject_of


def planned(path: Path, backend: str) -> PlannedModel:
    options = SessionOptions()
    options.add_session_config_entry("ortpkg.backend", backend)
    return PlannedModel(
        component_name="c",
        variant_name="v",
        planned_for="a test",
        session=InferenceSession(path, options),
        model_path=path,
    )


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[PlannedModel]:
    model = planned(model_file(tmp_path, MIXED), "llvm")
    assert model.session is not None
    with model.session:
        yield model


def graphs_of(model: PlannedModel) -> tuple[GraphPart, ...]:
    (shown,) = graph_section(subject_of(DIGITS, model)).models
    assert shown.obstacle == ""
    return shown.graphs


def test_the_caption_says_what_was_planned_by_what(mixed: PlannedModel) -> None:
    (graph,) = graphs_of(mixed)
    assert graph.title == "Graph of c / v"
    assert graph.caption == (
        "6 nodes of the model file, planned by a test. 1 node runs after optimizations. One"
        " partition runs as a fused node, of 4 nodes together. Optimizations folded 2 nodes of the"
        " file, or fused them into others."
    )


def test_the_tables_say_who_runs_what(mixed: PlannedModel) -> None:
    (graph,) = graphs_of(mixed)
    (partition,) = graph.partitions
    assert partition.provider == "LLVMExecutionProvider"
    assert (partition.kind, partition.node_count, partition.runs_as) == ("ep-0", 4, "LLVM__1")
    assert graph.columns == ("LLVMExecutionProvider", "optimized away")
    assert dict(graph.operators) == {
        "Neg": (1, 1),
        "Exp": (1, 0),
        "MatMul": (0, 1),
        "Add": (1, 0),
        "Abs": (1, 0),
    }


def test_a_sub_graph_is_a_graph_with_its_way(tmp_path: Path) -> None:
    model = planned(model_file(tmp_path, BRANCHES), "embedded")
    assert model.session is not None
    with model.session:
        titles = [graph.title for graph in graphs_of(model)]
    assert titles[0] == "Graph of c / v"
    assert "Sub-graph choice.then_branch of c / v" in titles


def test_where_there_is_no_session_the_reason_stands() -> None:
    model = PlannedModel(
        component_name="c", variant_name="", planned_for="", obstacle="No variant fits."
    )
    section = graph_section(subject_of(DIGITS, model))
    assert section.models[0].obstacle == "No variant fits."
    assert (section.headline, section.status) == ("0 of 1 models planned", Status.WARN)
    assert section.layout_source == ""


def test_a_file_that_is_gone_meanwhile_is_a_reason(mixed: PlannedModel, tmp_path: Path) -> None:
    gone = replace(mixed, model_path=tmp_path / "gone.onnx")
    (shown,) = graph_section(subject_of(DIGITS, gone)).models
    assert "gone.onnx" in shown.obstacle


def test_what_would_make_the_page_too_large_is_tables_only(
    mixed: PlannedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_PACKED", 100)
    section = graph_section(subject_of(DIGITS, mixed))
    (graph,) = section.models[0].graphs
    assert graph.packed == ""
    assert graph.partitions
    assert section.layout_source == ""


def test_the_page_has_the_graph_the_layout_and_the_licence(digits_page: Page) -> None:
    packed = {
        each.get("id") or each.get("class"): text.strip()
        for each, text in zip(
            digits_page.all("script"), digits_page.texts_in("script"), strict=True
        )
        if each.get("type") == "application/octet-stream"
    }
    graph = json.loads(unpacked_text(packed["graph-data"]))
    assert graph["providers"] == ["CPUExecutionProvider"]
    assert "image" in graph["texts"]
    source = unpacked_text(packed["graph-layout-source"])
    assert "Permission is hereby granted" in source
    assert "dagre.graphlib.Graph" in source
    assert "@dagrejs/dagre 3.1.3 (MIT licence)" in digits_page.words


def test_without_a_script_a_first_picture_and_the_tables_are_there(digits_page: Page) -> None:
    assert "Groups can be opened where the page may run JavaScript." in digits_page.words
    labels = [each.get("aria-label") for each in digits_page.all("div")]
    assert "Partitions of Graph of classifier / cpu-fp32" in labels
    assert "Operators of Graph of classifier / cpu-fp32 by execution provider" in labels
    (view,) = (each for each in digits_page.all("div") if each.get("class") == "graph-view")
    assert "hidden" in view


def test_models_beyond_a_few_dozen_are_counted_and_not_planned(tmp_path: Path) -> None:
    root = package_called(tmp_path, "c")
    manifest = json.loads((root / "manifest.json").read_text(encoding="utf-8"))
    (variants,) = (each["variants"] for each in manifest["components"].values())
    names = [f"c{number}" for number in range(70)]
    manifest["components"] = {
        name: {"component_name": name, "variants": variants} for name in names
    }
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    page = page_of(ModelPackage(root).report())
    assert "64 models planned" in page.words
    assert "6 more models are not shown here; ortpkg plan --variant has all." in page.words


def test_a_message_of_several_lines_stands_in_one(tmp_path: Path) -> None:
    root = package_called(tmp_path, "v")
    manifest = json.loads((root / "manifest.json").read_text(encoding="utf-8"))
    manifest["components"]["v"]["variants"]["v"]["ep"] = "CUDAExecutionProvider"
    (root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    page = page_of(ModelPackage(root).report(ReportWishes(graphs=DrawnGraphs.ALL)))
    assert "cannot run on this machine: " in page.words
    assert "\\n" not in page.words
