"""The memory of planned models: what the page says is what the session planned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ortpkg import ModelPackage, ReportWishes
from ortpkg.foundations.errors import UsageError
from ortpkg.foundations.quantities import nbytes_text
from ortpkg.report.report_subject import PlannedModel
from ortpkg.report.sections.memory_section import memory_section
from ortpkg.runtime.engine.allocation_planner import AllocKind
from ortpkg.runtime.session.session_plan import PlannedCopy, SessionPlan
from tests.report.conftest import DIGITS
from tests.report.pages import Page, page_of
from tests.report.subjects import planned_model, subject_of
from tests.session.planned_graphs import planned_graph, planned_value


@pytest.fixture(scope="module")
def one_digit_plan() -> Iterator[SessionPlan]:
    with ModelPackage(DIGITS).best_variant(backend="embedded").create_session() as session:
        yield session.get_plan({"batch": 1})


def test_the_figures_are_those_of_the_plan(digits_page: Page, one_digit_plan: SessionPlan) -> None:
    graph, words = one_digit_plan.graph, digits_page.words
    peak, weights = nbytes_text(graph.peak_nbytes), nbytes_text(graph.weight_nbytes)
    headline = f"peak {peak} of activations, {weights} of weights, with batch=1"
    assert headline in digits_page.texts_in("span")
    assert f"Peak of activations {peak}" in words
    assert f"Without sharing {nbytes_text(graph.unshared_nbytes)}" in words
    assert f"Weights {weights}" in words
    (formula,) = graph.peak_formulas
    assert f"Least peak as a formula {formula} bytes" in words
    assert "ortpkg report --size NAME=SIZE gives symbolic dimensions other sizes" in words


def test_the_table_has_each_value_but_weights(
    digits_page: Page, one_digit_plan: SessionPlan
) -> None:
    values = [
        value
        for value in one_digit_plan.graph.values
        if value.kind is not AllocKind.ALLOCATE_STATICALLY
    ]
    assert len(values) > 5
    for value in values:
        size = nbytes_text(value.nbytes or 0)
        last = "no end" if value.last_step is None else value.last_step
        offset = "" if value.offset is None else f" {value.offset}"
        assert f"{size}{offset} {value.first_step} {last}" in digits_page.words, value


def test_sizes_that_are_wished_are_those_of_the_figures() -> None:
    package = ModelPackage(DIGITS)
    page = page_of(package.report(ReportWishes(sizes={"batch": 1000})))
    assert "peak 12.3 MB of activations, 103.5 kB of weights, with batch=1000" in page.words


def test_the_size_of_a_dimension_that_no_model_has_is_refused() -> None:
    package = ModelPackage(DIGITS)
    expected = "no planned model has the symbolic dimension 'bach'.*they have 'batch'"
    with pytest.raises(UsageError, match=expected):
        package.report(ReportWishes(sizes={"bach": 2}))


def test_each_memory_has_its_peak_and_copies_are_listed() -> None:
    graph = planned_graph(
        3,
        [
            planned_value("a", (0, 1000), (0, 1)),
            planned_value("b", (0, 5000), (1, 2), device="Npu"),
        ],
    )
    copy = PlannedCopy(step=1, value="a", source="Cpu", target="Npu", nbytes=1000, duration_s=2e-3)
    section = memory_section(subject_of(DIGITS, planned_model(replace(graph, copies=(copy,)))))
    (memory,) = section.models[0].graphs
    facts = dict(memory.facts)
    assert facts["Peak of activations"] == "6.0 kB"
    assert (facts["Peak in Cpu"], facts["Peak in Npu"]) == ("1.0 kB", "5.0 kB")
    assert facts["Copied between memories"] == "1 value"
    (row,) = memory.copies
    assert (row.step, row.value, row.source, row.target) == (1, "a", "Cpu", "Npu")
    assert (row.size, row.duration) == ("1.0 kB", "2.0 ms")
    assert [value.name for value in memory.values] == ["b", "a"]
    assert memory.picture.count("<rect") >= 3


def test_a_value_in_anothers_buffer_names_it() -> None:
    graph = planned_graph(
        2,
        [planned_value("a", (0, 64), (0, 0)), planned_value("b", (0, 64), (1, 1), buffer="a")],
    )
    section = memory_section(subject_of(DIGITS, planned_model(graph)))
    rows = section.models[0].graphs[0].values
    assert [(row.name, row.kind, row.buffer) for row in rows] == [
        ("a", "own buffer", ""),
        ("b", "another's buffer", "a"),
    ]


def test_where_nothing_is_laid_out_there_is_no_picture() -> None:
    graph = planned_graph(2, [])
    section = memory_section(subject_of(DIGITS, planned_model(graph)))
    (memory,) = section.models[0].graphs
    assert memory.picture == ""
    assert dict(memory.facts)["Peak of activations"] == "none: there are no intermediate values"


def test_a_peak_that_only_a_run_tells_is_no_number() -> None:
    value = replace(planned_value("a", (0, 8), (0, 1)), nbytes=None, offset=None, size="")
    graph = replace(planned_graph(2, []), values=(value,), unknown_count=1)
    section = memory_section(subject_of(DIGITS, planned_model(graph)))
    assert section.headline == "peak of activations known only in a run, 0 B of weights"
    facts = dict(section.models[0].graphs[0].facts)
    assert facts == {
        "Peak of activations": "known only in a run",
        "Weights": "0 B",
        "Sizes known only in a run": "1 value",
    }


def test_values_beyond_what_a_page_shows_are_counted() -> None:
    values = [planned_value(f"v{number}", (number * 64, 64), (0, 1)) for number in range(20_000)]
    model = planned_model(planned_graph(2, values))
    section = memory_section(subject_of(DIGITS, *[model] * 9))
    listed = [len(each.graphs[0].values) for each in section.models]
    assert listed == [111] * 9
    assert section.models[0].graphs[0].left_out == (
        "19889 more values are not shown here; ortpkg plan --memory has all.",
    )
    assert sum(len(each.graphs[0].picture) for each in section.models) < 600_000


def test_a_model_without_a_plan_is_named_with_the_reason() -> None:
    model = PlannedModel(
        component_name="c", variant_name="v", planned_for="", obstacle="Too large."
    )
    section = memory_section(subject_of(DIGITS, model))
    assert section.headline == "No plan, so that nothing is known of memory"
    assert [(each.title, each.obstacle) for each in section.models] == [("c / v", "Too large.")]
