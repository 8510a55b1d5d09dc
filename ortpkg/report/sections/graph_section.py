"""Graphs of the planned models: their nodes by provider, as a view for the script and as tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ortpkg.foundations.drawing.palette import fill_kind
from ortpkg.report.graph_payload import packed_graph, packed_text
from ortpkg.report.report_subject import PlannedModel, ReportSubject
from ortpkg.report.sections.graph_overview import overview_picture
from ortpkg.report.sections.section import MOST_ROWS, Section, Status, left_out

if TYPE_CHECKING:
    from ortpkg.report.graph_facts import GraphFacts, GraphStage

_STATIC = Path(__file__).parents[1] / "static"
#: Most characters of all views of a page; further graphs are shown as tables.
_MOST_PACKED = 1_500_000
_OPTIMIZED_AWAY = "optimized away"
_ONE_FUSED = "One partition runs as a fused node"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One partition, in words.

    Attributes:
        provider: Provider that runs it.
        kind: CSS class of its colour.
        node_count: Number of nodes of the model file in it.
        runs_as: "one by one", or the name of the node that replaces them.
    """

    provider: str
    kind: str
    node_count: int
    runs_as: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPart:
    """One graph of a model.

    Attributes:
        title: Title of the graph.
        caption: What was planned by which backend, and the result.
        overview: Static picture, which needs no script.
        packed: Data for the script; "" if the page would become too large.
        partitions: Partitions in order of assignment.
        columns: Providers, and words for nodes that no step runs.
        operators: Operator and its number of nodes by column, most frequent first.
        left_out: Sentence on the number of operators that are not shown.
    """

    title: str
    caption: str
    overview: str
    packed: str
    partitions: tuple[PartitionRow, ...]
    columns: tuple[str, ...]
    operators: tuple[tuple[str, tuple[int, ...]], ...]
    left_out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGraphs:
    """Graphs of one variant's model, or a sentence why there is none."""

    title: str
    graphs: tuple[GraphPart, ...]
    obstacle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSection(Section):
    """Graphs of all planned models.

    Attributes:
        models: Models in execution order of their components.
        layout_source: Packed script that lays out graphs in a worker; "" if none is drawn.
        layout_library: Name, version and licence of its library.
        left_out: Sentence on the number of models that were not planned.
    """

    models: tuple[ModelGraphs, ...]
    layout_source: str
    layout_library: str
    left_out: str


def graph_section(subject: ReportSubject) -> GraphSection:
    """Return the graphs of the subject's models, each with its sub-graphs."""
    room = _Room(_MOST_PACKED)
    models = tuple(_model(planned, room, number) for number, planned in enumerate(subject.models))
    is_drawn = any(graph.packed for model in models for graph in model.graphs)
    return GraphSection(
        headline=_headline(subject.models, models),
        status=Status.WARN if any(model.obstacle for model in models) else Status.PLAIN,
        models=models,
        layout_source=_layout_source() if is_drawn else "",
        layout_library=_layout_library(),
        left_out=left_out(subject.unplanned_count, "models", "ortpkg plan --variant"),
    )


class _Room:
    """Number of characters that the views of a page may still use."""

    def __init__(self, most: int) -> None:
        self._left = most

    def if_it_fits(self, packed: str) -> str:
        """Return ``packed``, or "" if it does not fit any more."""
        if len(packed) > self._left:
            return ""
        self._left -= len(packed)
        return packed


def _headline(planned: Sequence[PlannedModel], models: Sequence[ModelGraphs]) -> str:
    if not planned:
        return "No graph was asked for"
    missing = sum(bool(model.obstacle) for model in models)
    if missing:
        return f"{len(models) - missing} of {len(models)} models planned"
    return f"{len(models)} model{'s' * (len(models) != 1)} planned"


def _model(planned: PlannedModel, room: _Room, number: int) -> ModelGraphs:
    title = planned.title
    if planned.session is None or planned.model_path is None:
        return ModelGraphs(
            title=title, graphs=(), obstacle=planned.obstacle or "It is no single model file."
        )
    from ortpkg.foundations.errors import OrtpkgError
    from ortpkg.report.graph_facts import graph_facts  # with the engine, where there is a session

    try:
        facts = graph_facts(planned.session, planned.model_path, planned.plan)
    except OrtpkgError as error:  # for example, the file changed since the session read it
        return ModelGraphs(title=title, graphs=(), obstacle=str(error))
    return ModelGraphs(
        title=title,
        graphs=tuple(
            _graph(graph, planned, title, room, f"overview-{number}-{position}")
            for position, graph in enumerate(facts)
        ),
        obstacle="",
    )


def _graph(
    facts: GraphFacts, planned: PlannedModel, title: str, room: _Room, name: str
) -> GraphPart:
    full_title = f"Sub-graph {facts.path} of {title}" if facts.path else f"Graph of {title}"
    counts = _operator_counts(facts)
    shown = counts[:MOST_ROWS]
    return GraphPart(
        title=full_title,
        caption=" ".join(_sentences(facts, planned)),
        overview=room.if_it_fits(overview_picture(facts.before, name=name, title=full_title)),
        packed=room.if_it_fits(packed_graph(facts)),
        partitions=tuple(
            PartitionRow(
                provider=facts.providers[partition.provider],
                kind=fill_kind(partition.provider),
                node_count=partition.node_count,
                runs_as=partition.fused_node or "one by one",
            )
            for partition in facts.partitions[:MOST_ROWS]
        ),
        columns=_columns(facts),
        operators=shown,
        left_out=left_out(len(counts) - len(shown), "operators", "ortpkg plan --json"),
    )


def _sentences(facts: GraphFacts, planned: PlannedModel) -> Iterator[str]:
    """Yield sentences on what was planned by which backend."""
    before, after = facts.before, facts.after
    count = len(before.nodes) + before.left_out
    yield f"{_nodes(count)} of the model file, planned by {planned.planned_for}."
    if after is None:
        yield "It has no plan of its own: a node around it was fused, or optimized away."
    else:
        steps = len(after.nodes) + after.left_out
        yield f"{_nodes(steps)} run{'s' * (steps == 1)} after optimizations."
    fused = sum(bool(partition.fused_node) for partition in facts.partitions)
    if fused:
        inside = sum(partition.node_count for partition in facts.partitions if partition.fused_node)
        many = f"{fused} partitions run as fused nodes" if fused > 1 else _ONE_FUSED
        yield f"{many}, of {_nodes(inside)} together."
    away = sum(node.provider is None for node in before.nodes)
    if after is not None and away:
        yield f"Optimizations folded {_nodes(away)} of the file, or fused them into others."
    yield from _left_out_sentences(before, after)


def _left_out_sentences(before: GraphStage, after: GraphStage | None) -> Iterator[str]:
    for stage, which in ((before, "of the file"), (after, "that run")):
        if stage is not None and stage.left_out:
            yield f"The last {_nodes(stage.left_out)} {which} are in no picture and no table here."


def _nodes(count: int) -> str:
    return f"{count} node{'s' * (count != 1)}"


def _columns(facts: GraphFacts) -> tuple[str, ...]:
    """Return the providers that run nodes, and words for nodes that none runs, if there are any."""
    used = {node.provider for node in facts.before.nodes}
    names = [name for number, name in enumerate(facts.providers) if number in used]
    return (*names, *((_OPTIMIZED_AWAY,) if None in used else ()))


def _operator_counts(facts: GraphFacts) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the number of nodes of each operator in the file, by provider."""
    counts: Counter[tuple[str, str]] = Counter()
    totals: Counter[str] = Counter()
    for node in facts.before.nodes:
        runs = _OPTIMIZED_AWAY if node.provider is None else facts.providers[node.provider]
        name = f"{node.op_type} ({node.domain})" if node.domain else node.op_type
        counts[name, runs] += 1
        totals[name] += 1
    columns = _columns(facts)
    return tuple(
        (name, tuple(counts[name, column] for column in columns))
        for name, _ in totals.most_common()
    )


@cache
def _layout_source() -> str:
    """Return the script of the layout worker: the library with its licence, and its caller."""
    names = ("vendor/dagre.min.js.LEGAL.txt", "vendor/dagre.min.js", "layout_worker.js")
    return packed_text("\n".join((_STATIC / name).read_text(encoding="utf-8") for name in names))


@cache
def _layout_library() -> str:
    entry = json.loads((_STATIC / "vendor" / "vendor.json").read_text(encoding="utf-8"))[0]
    return f"{entry['name']} {entry['version']} ({entry['license']} licence)"
