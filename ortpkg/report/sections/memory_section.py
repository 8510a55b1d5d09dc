"""Memory of the planned models: blocks over steps, peaks, copies, and each value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ortpkg.foundations.drawing.svg import shortened
from ortpkg.foundations.quantities import counted, duration_text, nbytes_text
from ortpkg.report.report_subject import PlannedModel, ReportSubject
from ortpkg.report.sections.section import MOST_ROWS, Section, Status, left_out
from ortpkg.runtime.engine.allocation_planner import AllocKind
from ortpkg.runtime.session.memory_profile import laid_out_values
from ortpkg.runtime.session.memory_timeline import memory_timeline_figure
from ortpkg.runtime.session.session_plan import GraphPlan, PlannedCopy, PlannedValue

#: Most values that the page draws, and lists, of one graph and of all.
_MOST_BOXES, _MOST_BOXES_IN_ALL = 1500, 2000
_MOST_VALUES, _MOST_VALUES_IN_ALL = 200, 1000
_MOST_GRAPHS = 32
_LONGEST_NAME, _LONGEST_FORMULA = 120, 200
_WHERE_ALL = "ortpkg plan --memory"
_KNOWN_IN_A_RUN = "known only in a run"
_KINDS: Mapping[AllocKind, str] = {
    AllocKind.ALLOCATE: "own buffer",
    AllocKind.REUSE: "another's buffer",
    AllocKind.PRE_EXISTING: "fed",
    AllocKind.ALLOCATE_STATICALLY: "weight",
    AllocKind.ALLOCATE_OUTPUT: "output",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRow:
    """One value: origin of its buffer, size, offset and lifetime."""

    name: str
    kind: str
    size: str
    offset: str
    first_step: int
    last_step: str
    buffer: str
    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRow:
    """One value that is copied between memories: step, value, source, target, size and time."""

    step: int
    value: str
    source: str
    target: str
    size: str
    duration: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphMemory:
    """Memory of one graph.

    Attributes:
        name: "main graph", or the path to the sub-graph.
        facts: Name and value of facts in words.
        picture: Figure, or "" if nothing is laid out.
        values: The largest values.
        copies: The first copies.
        left_out: Sentences on what is not shown.
    """

    name: str
    facts: tuple[tuple[str, str], ...]
    picture: str
    values: tuple[ValueRow, ...]
    copies: tuple[CopyRow, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMemory:
    """Memory of one planned model, or the reason why there is no plan.

    Attributes:
        title: Component model and variant.
        obstacle: Reason why there is no plan, or "".
        sizes: Sentence on the sizes that its figures assume; "" if none is symbolic.
        graphs: Main graph and sub-graphs that have values.
        left_out: Sentence on graphs that are not shown.
    """

    title: str
    obstacle: str
    sizes: str = ""
    graphs: tuple[GraphMemory, ...] = ()
    left_out: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySection(Section):
    """Memory of all planned models."""

    models: tuple[ModelMemory, ...]


def memory_section(subject: ReportSubject) -> MemorySection:
    """Return how much memory each planned model needs, and when."""
    count = max(len(subject.models), 1)
    boxes = min(_MOST_BOXES, _MOST_BOXES_IN_ALL // count)
    rows = min(_MOST_VALUES, _MOST_VALUES_IN_ALL // count)
    return MemorySection(
        headline=_headline(subject.models),
        status=Status.PLAIN,
        models=tuple(
            _model_memory(model, f"memory-{number}", _Budgets(boxes, rows))
            for number, model in enumerate(subject.models)
        ),
    )


@dataclass(slots=True)
class _Budgets:
    """Number of values of a model that the page may still draw, and list."""

    boxes: int
    rows: int

    def take_boxes(self, count: int) -> int:
        granted = min(count, self.boxes)
        self.boxes -= granted
        return granted

    def take_rows(self, count: int) -> int:
        granted = min(count, self.rows)
        self.rows -= granted
        return granted


def _headline(models: Sequence[PlannedModel]) -> str:
    planned = [(model, model.plan.graph) for model in models if model.plan is not None]
    if not planned:
        return "No plan, so that nothing is known of memory" if models else "No model was planned"
    model, graph = max(planned, key=lambda pair: pair[1].peak_nbytes)
    text = f"peak of activations {_KNOWN_IN_A_RUN}"
    if not _is_unknown(graph):
        at_least = "at least " if graph.unknown_count else ""
        text = f"peak {at_least}{nbytes_text(graph.peak_nbytes)} of activations"
    if len(planned) == 1:
        text += f", {nbytes_text(graph.weight_nbytes)} of weights"
    else:
        text += f" ({shortened(model.component_name, _LONGEST_NAME)}), the most of {len(planned)}"
    return f"{text}{_with_sizes(model.sizes)}"


def _is_unknown(graph: GraphPlan) -> bool:
    """Return True if no size of an intermediate value is known before a run."""
    return bool(graph.unknown_count) and not graph.peak_nbytes


def _with_sizes(sizes: Mapping[str, int]) -> str:
    if not sizes:
        return ""
    texts = [f"{shortened(name, 40)}={size}" for name, size in list(sizes.items())[:4]]
    return f", with {', '.join(texts)}{', ...' if len(sizes) > 4 else ''}"


def _model_memory(model: PlannedModel, figure: str, budgets: _Budgets) -> ModelMemory:
    title = model.title
    if model.plan is None:
        return ModelMemory(title=title, obstacle=model.obstacle)
    graphs = model.plan.graph.with_subgraphs()
    return ModelMemory(
        title=title,
        obstacle="",
        sizes=_sizes_sentence(model.sizes),
        graphs=tuple(
            _graph_memory(graph, f"{figure}-{number}", title, budgets)
            for number, graph in enumerate(graphs[:_MOST_GRAPHS])
        ),
        left_out=left_out(len(graphs) - _MOST_GRAPHS, "graphs inside of it", _WHERE_ALL),
    )


def _sizes_sentence(sizes: Mapping[str, int]) -> str:
    if not sizes:
        return ""
    shown = [f"{shortened(name, 60)}={size}" for name, size in list(sizes.items())[:16]]
    more = f" and {len(sizes) - 16} more" if len(sizes) > 16 else ""
    return (
        f"Figures in bytes are for {', '.join(shown)}{more}; ortpkg report --size NAME=SIZE gives"
        " symbolic dimensions other sizes, as ortpkg plan --size does."
    )


def _graph_memory(graph: GraphPlan, figure: str, title: str, budgets: _Budgets) -> GraphMemory:
    graph_name = f"graph {graph.path}" if graph.path else "main graph"
    laid_out = laid_out_values(graph)
    boxes = budgets.take_boxes(len(laid_out))
    picture = ""
    if boxes:
        whole = shortened(f"{title}: memory over steps, {graph_name}", 300)
        picture = memory_timeline_figure(graph, whole, name=figure, most_boxes=boxes)
    ordered = sorted(_listed_values(graph), key=lambda value: -(value.nbytes or 0))
    rows = ordered[: budgets.take_rows(len(ordered))]
    sentences = (
        left_out(len(ordered) - len(rows), "values", _WHERE_ALL),
        left_out(len(graph.copies) - MOST_ROWS, "copies", "ortpkg plan"),
    )
    return GraphMemory(
        name=graph_name,
        facts=tuple(_facts(graph)),
        picture=picture,
        values=tuple(map(_value_row, rows)),
        copies=tuple(map(_copy_row, graph.copies[:MOST_ROWS])),
        left_out=tuple(sentence for sentence in sentences if sentence),
    )


def _listed_values(graph: GraphPlan) -> Iterator[PlannedValue]:
    """Return all values but weights, of which only the sum is shown."""
    return (value for value in graph.values if value.kind is not AllocKind.ALLOCATE_STATICALLY)


def _facts(graph: GraphPlan) -> Iterator[tuple[str, str]]:
    at_least = "at least " if graph.unknown_count else ""
    if _is_unknown(graph):
        yield "Peak of activations", _KNOWN_IN_A_RUN
    elif graph.has_intermediate_values:
        yield "Peak of activations", f"{at_least}{nbytes_text(graph.peak_nbytes)}"
        if len(graph.peaks) > 1:
            for device, nbytes in list(graph.peaks.items())[:16]:
                yield f"Peak in {device}", nbytes_text(nbytes)
        least = nbytes_text(graph.least_possible_nbytes)
        above = graph.overhead_percent
        how = f"the peak is {above:.1f} % above" if above >= 0.05 else "which is reached"
        yield "Least that this order needs", f"{least}, {how}" if graph.peak_nbytes else least
        yield "Without sharing", nbytes_text(graph.unshared_nbytes)
    else:
        yield "Peak of activations", "none: there are no intermediate values"
    yield "Weights", nbytes_text(graph.weight_nbytes)
    if graph.peak_formulas:
        formulas = ", ".join(graph.peak_formulas)
        whole = f"max({formulas})" if len(graph.peak_formulas) > 1 else formulas
        yield "Least peak as a formula", f"{shortened(whole, _LONGEST_FORMULA)} bytes"
    if graph.unknown_count:
        yield "Sizes known only in a run", counted(graph.unknown_count, "value")
    if graph.copies:
        yield "Copied between memories", counted(len(graph.copies), "value")


def _value_row(value: PlannedValue) -> ValueRow:
    size = shortened(value.size, _LONGEST_NAME) or "unknown"
    if value.nbytes is not None:
        size = nbytes_text(value.nbytes)
    return ValueRow(
        name=shortened(value.name, _LONGEST_NAME),
        kind=_KINDS[value.kind],
        size=size,
        offset="" if value.offset is None else str(value.offset),
        first_step=value.first_step,
        last_step="no end" if value.last_step is None else str(value.last_step),
        buffer="" if value.buffer == value.name else shortened(value.buffer, _LONGEST_NAME),
        device=value.device,
    )


def _copy_row(copy: PlannedCopy) -> CopyRow:
    return CopyRow(
        step=copy.step,
        value=shortened(copy.value, _LONGEST_NAME),
        source=copy.source,
        target=copy.target,
        size="unknown" if copy.nbytes is None else nbytes_text(copy.nbytes),
        duration="unknown" if copy.duration_s is None else duration_text(copy.duration_s),
    )
