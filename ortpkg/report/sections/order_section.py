"""Execution order of the planned models: steps, their providers and kernels, and sub-graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ortpkg.foundations.drawing.svg import shortened
from ortpkg.foundations.quantities import counted
from ortpkg.report.order_picture import MOST_MARKS, order_figure, provider_changes
from ortpkg.report.report_subject import PlannedModel, ReportSubject
from ortpkg.report.sections.section import MOST_ROWS, Section, Status, left_out
from ortpkg.runtime.session.session_plan import GraphPlan, PlannedNode, SessionPlan

#: Most steps that the page lists, of one graph and of all.
_MOST_STEPS, _MOST_STEPS_IN_ALL = 300, 1000
#: Most steps of all models for which the shapes of the pictures name their steps.
_MOST_NAMED_STEPS = 3000
_MOST_GRAPHS = 32
_LONGEST_VALUES = 100
_LONGEST_NODE = 120
_WHERE_ALL = "ortpkg plan --nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One step in words; long lists of inputs and outputs are cut."""

    step: int
    operator: str
    node: str
    provider: str
    kernel: str
    inputs: str
    outputs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """Nodes of one provider: graph, number, way of running, and the first names."""

    provider: str
    graph: str
    node_count: int
    how: str
    nodes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOrder:
    """Execution order of one graph.

    Attributes:
        name: "main graph", or the path to the sub-graph.
        summary: Number of steps, their providers and kernels.
        picture: Figure, or "" for a graph without steps.
        steps: The first steps.
        left_out: Sentence on the rest, or "".
    """

    name: str
    summary: str
    picture: str
    steps: tuple[StepRow, ...]
    left_out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOrder:
    """Execution order of one planned model, or the reason why there is none.

    Attributes:
        title: Component model and variant.
        planned_for: Owner of the plan, in words.
        obstacle: Reason why there is no plan, or "".
        partitions: Nodes of each provider, before fusing.
        graphs: Main graph and sub-graphs.
        left_out: Sentences on partitions and graphs that are not shown.
    """

    title: str
    planned_for: str
    obstacle: str
    partitions: tuple[PartitionRow, ...] = ()
    graphs: tuple[GraphOrder, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderSection(Section):
    """Execution order of all planned models."""

    models: tuple[ModelOrder, ...]


def order_section(subject: ReportSubject) -> OrderSection:
    """Return the execution order of each planned model."""
    steps = sum(len(model.plan.graph.nodes) for model in subject.models if model.plan is not None)
    rows = min(_MOST_STEPS, _MOST_STEPS_IN_ALL // max(len(subject.models), 1))
    names_steps = steps <= _MOST_NAMED_STEPS
    unplanned = sum(model.plan is None for model in subject.models)
    return OrderSection(
        headline=_headline(subject.models, unplanned),
        status=Status.WARN if unplanned else Status.PLAIN,
        models=tuple(
            _model_order(model, f"order-{number}", _StepBudget(rows, names_steps=names_steps))
            for number, model in enumerate(subject.models)
        ),
    )


class _StepBudget:
    """Number of steps of a model that the page may still list, and if its pictures name steps."""

    def __init__(self, left: int, *, names_steps: bool) -> None:
        self.left, self.names_steps = left, names_steps

    def take(self, count: int) -> int:
        granted = min(count, self.left)
        self.left -= granted
        return granted


def _headline(models: Sequence[PlannedModel], unplanned: int) -> str:
    if not models:
        return "No model was planned"
    if unplanned == len(models):
        return f"None of {len(models)} models could be planned" if unplanned > 1 else "No plan"
    graphs = [model.plan.graph for model in models if model.plan is not None]
    providers = dict.fromkeys(node.provider for graph in graphs for node in graph.nodes)
    steps = sum(len(graph.nodes) for graph in graphs)
    changes = sum(len(provider_changes(graph.nodes)) for graph in graphs)
    sentences = [f"{counted(steps, 'step')} on {', '.join(providers) or 'nothing'}"]
    if changes:
        sentences.append(f"the provider changes {counted(changes, 'time')}")
    if unplanned:
        sentences.append(f"{unplanned} of {len(models)} models could not be planned")
    return "; ".join(sentences)


def _model_order(model: PlannedModel, figure: str, budget: _StepBudget) -> ModelOrder:
    title = model.title
    if model.plan is None:
        return ModelOrder(title=title, planned_for=model.planned_for, obstacle=model.obstacle)
    graphs = model.plan.graph.with_subgraphs()
    partitions = model.plan.partitions
    return ModelOrder(
        title=title,
        planned_for=model.planned_for,
        obstacle="",
        partitions=tuple(_partition_rows(model.plan)),
        graphs=tuple(
            _graph_order(
                graph, model.plan, f"{figure}-{number}", f"{title}: execution order", budget
            )
            for number, graph in enumerate(graphs[:_MOST_GRAPHS])
        ),
        left_out=tuple(
            sentence
            for sentence in (
                left_out(len(partitions) - MOST_ROWS, "partitions", "ortpkg plan"),
                left_out(len(graphs) - _MOST_GRAPHS, "graphs inside of it", _WHERE_ALL),
            )
            if sentence
        ),
    )


def _partition_rows(plan: SessionPlan) -> Iterator[PartitionRow]:
    for partition in plan.partitions[:MOST_ROWS]:
        yield PartitionRow(
            provider=partition.provider,
            graph=partition.graph_path or "main graph",
            node_count=len(partition.node_names),
            how=f"compiled as {partition.fused_node}" if partition.fused_node else "node by node",
            nodes=_listed(partition.node_names),
        )


def _graph_order(
    graph: GraphPlan, plan: SessionPlan, figure: str, title: str, budget: _StepBudget
) -> GraphOrder:
    graph_name = f"graph {graph.path}" if graph.path else "main graph"
    shown = graph.nodes[: budget.take(len(graph.nodes))]
    picture = ""
    if graph.nodes:
        picture = order_figure(
            graph,
            plan.providers,
            name=figure,
            title=shortened(f"{title}, {graph_name}", 300),
            names_steps=budget.names_steps,
        )
    return GraphOrder(
        name=graph_name,
        summary=_summary(graph),
        picture=picture,
        steps=tuple(map(_step_row, shown)),
        left_out=left_out(len(graph.nodes) - len(shown), "steps", _WHERE_ALL),
    )


def _summary(graph: GraphPlan) -> str:
    kernels = ", ".join(f"{count} {kernel}" for kernel, count in graph.kernel_counts.items())
    sentences = [counted(len(graph.nodes), "step"), f"kernels: {kernels or 'none'}"]
    if changes := len(provider_changes(graph.nodes)):
        dotted = " (dotted)" if changes <= MOST_MARKS else ""
        sentences.append(f"the execution provider changes {counted(changes, 'time')}{dotted}")
    if graph.copies:
        sentences.append(
            f"{counted(len(graph.copies), 'value')} copied between memories (red marks)"
        )
    return "; ".join(sentences)


def _step_row(node: PlannedNode) -> StepRow:
    return StepRow(
        step=node.step,
        operator=f"{node.domain}:{node.op_type}" if node.domain else node.op_type,
        node=shortened(node.name, _LONGEST_NODE),
        provider=node.provider,
        kernel=node.kernel,
        inputs=_listed(node.inputs),
        outputs=_listed(node.outputs),
    )


def _listed(names: Sequence[str]) -> str:
    """Return the names as far as there is room, and the number of further ones."""
    shown = ""
    for number, name in enumerate(names):
        words = f"{', ' if number else ''}{shortened(name, _LONGEST_VALUES) or '-'}"
        if number and len(shown) + len(words) > _LONGEST_VALUES:
            return f"{shown}, and {len(names) - number} more"
        shown += words
    return shown
