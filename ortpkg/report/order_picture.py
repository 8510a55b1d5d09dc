"""Picture of the execution order: steps to the right, a row for each provider and operator.

Consecutive steps with the same row and provider are one shape. If there are more steps than a
picture can resolve, a column stands for several, so that any order has at most a few thousand
shapes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ortpkg.foundations.drawing import svg
from ortpkg.foundations.drawing.palette import fill_kind
from ortpkg.foundations.drawing.scales import Scale
from ortpkg.foundations.quantities import counted
from ortpkg.runtime.session.session_plan import GraphPlan, PlannedNode

_LEFT, _RIGHT, _BOTTOM = 176, 16, 40
_LEAST_WIDTH, _GREATEST_WIDTH, _STEP_WIDTH = 620, 1108, 40
_ROW_HEIGHT, _LANE_HEIGHT, _HEADING_HEIGHT, _GAP = 18, 22, 20, 8
_MOST_LANES, _MOST_OPERATORS = 10, 16
_MOST_SHAPES = 3_000
#: Most changes of the provider, and most copies, that are marked.
MOST_MARKS = 200
_LONGEST_LABEL = 23
_LONGEST_TITLE = 120
_OTHER_OPERATORS, _OTHER_PROVIDERS = "other operators", "other providers"
_EP_SUFFIX = "ExecutionProvider"
_NUMBER_OF_FUSED = re.compile(r"__\d+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Rows of equal height: their labels, their number of steps, and the row of each step."""

    labels: Sequence[str]
    counts: Sequence[int]
    row_of: Callable[[PlannedNode], int]
    height: int

    @property
    def total_height(self) -> int:
        return len(self.labels) * self.height


@dataclass(slots=True, kw_only=True)
class _Run:
    """Steps of one row that become one shape, and their columns."""

    first_column: int
    last_column: int
    nodes: list[PlannedNode]

    def continues_with(self, column: int, node: PlannedNode) -> bool:
        """Return True if ``node``, of the same row and no earlier column, belongs to the run."""
        is_next = self.last_column == column - 1 and self.nodes[0].provider == node.provider
        return is_next or self.last_column == column


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """Columns of steps, with several steps each if there are many."""

    nodes: Sequence[PlannedNode]
    count: int
    across: Scale

    def first_step(self, column: int) -> int:
        return column * len(self.nodes) // self.count

    def runs(self, rows: _Rows) -> Sequence[Sequence[_Run]]:
        """Return the runs of each row; a column has the provider of its first step."""
        row_runs: list[list[_Run]] = [[] for _ in rows.labels]
        for column in range(self.count):
            for node in self.nodes[self.first_step(column) : self.first_step(column + 1)]:
                runs = row_runs[rows.row_of(node)]
                if runs and runs[-1].continues_with(column, node):
                    runs[-1].nodes.append(node)
                    runs[-1].last_column = column
                else:
                    runs.append(_Run(first_column=column, last_column=column, nodes=[node]))
        return row_runs


def provider_changes(nodes: Sequence[PlannedNode]) -> tuple[int, ...]:
    """Return the steps that another execution provider runs than the step before."""
    return tuple(
        after.step for before, after in pairwise(nodes) if before.provider != after.provider
    )


def order_figure(
    graph: GraphPlan, providers: Sequence[str], *, name: str, title: str, names_steps: bool = True
) -> str:
    """Return an SVG figure of the order of ``graph``, which has at least one step.

    Args:
        graph: The plan.
        providers: Providers of the session; their positions decide the colours.
        name: Prefix of the ids; see :func:`ortpkg.foundations.drawing.svg.figure`.
        title: Title of the picture, for those who cannot see it.
        names_steps: True if shapes show the steps under the pointer; without, a picture has a fifth
            of the characters.
    """
    lanes, operators = _lanes(graph.nodes), _operators(graph.nodes)
    full_width = _LEFT + _RIGHT + len(graph.nodes) * _STEP_WIDTH
    width = min(max(_LEAST_WIDTH, full_width), _GREATEST_WIDTH)
    columns = _Columns(
        nodes=graph.nodes,
        count=min(len(graph.nodes), _MOST_SHAPES // (len(lanes.labels) + len(operators.labels))),
        across=Scale(start=_LEFT, end=width - _RIGHT, greatest=len(graph.nodes)),
    )
    colours = {provider: fill_kind(number) for number, provider in enumerate(providers)}
    lanes_top = _HEADING_HEIGHT
    operators_top = lanes_top + lanes.total_height + _GAP + _HEADING_HEIGHT
    floor = operators_top + operators.total_height
    parts = [
        svg.text(_LEFT - 8, 14, "execution providers", kind="small", text_anchor="end"),
        *_drawn(lanes, columns, colours, lanes_top, names_steps),
        svg.text(_LEFT - 8, operators_top - 6, "operators", kind="small", text_anchor="end"),
        *_drawn(operators, columns, colours, operators_top, names_steps),
        *_marks(graph, columns.across, lanes_top, floor),
        *_axis(columns.across, len(graph.nodes), floor),
    ]
    return svg.figure(
        parts,
        width=width,
        height=floor + _BOTTOM,
        name=name,
        title=title,
        description=_description(graph),
    )


def _lanes(nodes: Sequence[PlannedNode]) -> _Rows:
    return _rows([node.provider for node in nodes], _MOST_LANES, _OTHER_PROVIDERS, _by_provider)


def _by_provider(node: PlannedNode) -> str:
    return node.provider


def _operators(nodes: Sequence[PlannedNode]) -> _Rows:
    return _rows(list(map(_by_operator, nodes)), _MOST_OPERATORS, _OTHER_OPERATORS, _by_operator)


def _by_operator(node: PlannedNode) -> str:
    """Return a node's operator.

    Fused nodes of one provider, whose operators are numbered, are alike.
    """
    return _NUMBER_OF_FUSED.sub("", node.op_type) if node.kernel == "compiled" else node.op_type


def _rows(
    keys: Sequence[str], most: int, others: str, key_of: Callable[[PlannedNode], str]
) -> _Rows:
    """Return rows of the most frequent keys, in order of first use, and one for the rest."""
    counts = Counter(keys)
    has_others = len(counts) > most
    named = dict(counts.most_common(most - 1 if has_others else None))
    labels = [key for key in counts if key in named]
    row_numbers = {label: number for number, label in enumerate(labels)}
    numbers = [counts[label] for label in labels]
    if has_others:
        labels.append(others)
        numbers.append(len(keys) - sum(numbers))
    return _Rows(
        labels=labels,
        counts=numbers,
        row_of=lambda node: row_numbers.get(key_of(node), len(row_numbers)),
        height=_LANE_HEIGHT if key_of is _by_provider else _ROW_HEIGHT,
    )


def _drawn(
    rows: _Rows, columns: _Columns, colours: dict[str, str], top: int, names_steps: bool
) -> Iterator[str]:
    across, height = columns.across, rows.height
    for label, count, runs in zip(rows.labels, rows.counts, columns.runs(rows), strict=True):
        note = str(count)
        words = svg.shortened(label.removesuffix(_EP_SUFFIX), _LONGEST_LABEL - len(note))
        yield svg.text(_LEFT - 8, top + height - 5, words, note=note, text_anchor="end")
        yield svg.line(across.start, top + height, across.end, top + height, kind="grid")
        shapes: dict[str, list[tuple[float, float, float, float]]] = {}
        for run in runs:
            first = columns.first_step(run.first_column)
            end = columns.first_step(run.last_column + 1)
            rectangle = (across.place(first), top + 2, across.length(end - first), height - 4)
            colour = colours.get(run.nodes[0].provider, fill_kind(len(colours)))
            if names_steps:
                yield svg.box(*rectangle, title=_run_text(run.nodes), kind=f"{colour} outlined")
            else:
                shapes.setdefault(colour, []).append(rectangle)
        for colour, rectangles in shapes.items():
            yield svg.boxes(rectangles, kind=f"{colour} outlined")
        top += height


def _run_text(nodes: Sequence[PlannedNode]) -> str:
    head = nodes[0]
    if len(nodes) == 1:
        node_name = svg.shortened(head.name, _LONGEST_TITLE)
        return f"step {head.step}: {head.op_type} {node_name} on {head.provider}, {head.kernel}"
    op_types = list(dict.fromkeys(node.op_type for node in nodes))
    what = ", ".join(op_types[:4]) + (", ..." if len(op_types) > 4 else "")
    where = f"steps {head.step} to {nodes[-1].step}"
    return f"{where}: {len(nodes)} of {svg.shortened(what, _LONGEST_TITLE)} on {head.provider}"


def _marks(graph: GraphPlan, across: Scale, top: int, floor: int) -> Iterator[str]:
    """Yield lines at changes of the provider, and triangles where a value is copied."""
    changes = provider_changes(graph.nodes)
    if len(changes) <= MOST_MARKS:
        for step in changes:
            x = across.place(step)
            yield svg.line(x, top, x, floor, kind="axis", stroke_dasharray="2 3")
    for copy in graph.copies[:MOST_MARKS]:
        x = across.place(copy.step + 0.5)
        yield svg.area([(x - 5, top - 7), (x, top + 1), (x + 5, top - 7)], top - 7, kind="mark")


def _axis(across: Scale, count: int, floor: int) -> Iterator[str]:
    for tick in dict.fromkeys(map(round, across.round_ticks(10))):
        if tick < count:
            x = across.place(tick + 0.5)
            yield svg.text(x, floor + 15, str(tick), kind="small", text_anchor="middle")
    middle = (across.start + across.end) / 2
    yield svg.text(middle, floor + 32, "step", kind="small", text_anchor="middle")


def _description(graph: GraphPlan) -> str:
    counts = Counter(node.provider for node in graph.nodes)
    sentences = [
        f"{counted(count, 'step')} on {provider}"
        for provider, count in counts.most_common(_MOST_LANES)
    ]
    if changes := provider_changes(graph.nodes):
        sentences.append(f"the execution provider changes {counted(len(changes), 'time')}")
    if copies := len(graph.copies):
        sentences.append(
            f"{counted(copies, 'value')} {'is' if copies == 1 else 'are'} copied between memories"
        )
    return "; ".join(sentences)
