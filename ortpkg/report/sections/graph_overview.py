"""Static picture of a graph for pages without scripts: its outermost groups and nodes, in layers.

With scripts, the interactive view replaces it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ortpkg.foundations.drawing.palette import fill_kind
from ortpkg.foundations.drawing.svg import box, figure, line, shortened, text
from ortpkg.report.graph_folding import FoldTree, fold

if TYPE_CHECKING:
    from ortpkg.report.graph_facts import GraphStage

#: Most items of a picture; the rest is counted.
MOST_ITEMS = 36
_MOST_LINES = 200
_WIDTH = 1108
_BOX_WIDTH, _BOX_HEIGHT = 206, 40
_COLUMN, _LAYER = 222, 66
_COLUMNS = _WIDTH // _COLUMN
_LONGEST_LABEL, _LONGEST_NOTE = 26, 34
_ROOT = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """Group or node of the outermost level: its texts and its provider."""

    label: str
    note: str
    provider: int | None


def overview_picture(stage: GraphStage, *, name: str, title: str) -> str:
    """Return a picture of the outermost items of a graph, from its inputs downwards.

    Args:
        stage: Nodes in execution order.
        name: Prefix of the ids in the picture, unique on the page.
        title: Title of the picture, for those who cannot see it.
    """
    tree = fold(stage.nodes)
    item_of, items = _outermost(stage, tree)
    shown_items = items[:MOST_ITEMS]
    edges = _edges(stage, item_of, len(shown_items))
    corners = _corners(_layers(len(shown_items), edges))
    parts = [*_lines(edges, corners), *_boxes(shown_items, corners)]
    bottom = max((y for _, y in corners), default=0) + _BOX_HEIGHT
    if len(items) > len(shown_items):
        remark = f"and {len(items) - len(shown_items)} more, which follow them"
        parts.append(text(4, bottom + 22, remark, kind="small"))
        bottom += 28
    return figure(
        parts,
        width=_WIDTH,
        height=round(bottom + 4),
        name=name,
        title=title,
        description=f"{len(items)} groups and nodes of the outermost level; a line leads from what"
        " makes a value down to what takes it.",
    )


def _outermost(stage: GraphStage, tree: FoldTree) -> tuple[list[int], list[_Item]]:
    """Return the number of the outermost item of each node, and these items in order."""
    numbers: dict[tuple[bool, int], int] = {}
    item_of: list[int] = []
    items: list[_Item] = []
    for index, node in enumerate(stage.nodes):
        group = tree.group_of[index]
        while group != _ROOT and (parent := tree.groups[group].parent) not in (None, _ROOT):
            assert parent is not None
            group = parent
        key = (group == _ROOT, index if group == _ROOT else group)
        if key not in numbers:
            numbers[key] = len(items)
            items.append(
                _Item(label=node.op_type, note=node.name, provider=node.provider)
                if group == _ROOT
                else _group_item(tree, group)
            )
        item_of.append(numbers[key])
    return item_of, items


def _group_item(tree: FoldTree, number: int) -> _Item:
    group = tree.groups[number]
    operators = ", ".join(f"{count} {operator}" for operator, count in group.operators)
    return _Item(
        label=group.label,
        note=f"{group.node_count} nodes: {operators}",
        provider=group.providers[0][0] if group.providers else None,
    )


def _edges(stage: GraphStage, item_of: Sequence[int], count: int) -> list[tuple[int, int]]:
    """Return the pairs of shown items with a value from one to the other, once and downwards."""
    maker = {
        value: item_of[index]
        for index, node in enumerate(stage.nodes)
        for value in node.outputs
        if value
    }
    pairs: dict[tuple[int, int], None] = {}
    for index, node in enumerate(stage.nodes):
        for value in node.inputs:
            source, target = maker.get(value), item_of[index]
            if source is not None and source < target < count:
                pairs[source, target] = None
    return list(pairs)


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each item, below all items whose values it uses.

    If a layer is full, its next item goes to the one below.
    """
    sources_of: dict[int, list[int]] = {}
    for source, target in edges:
        sources_of.setdefault(target, []).append(source)
    layers: list[int] = []
    filled: dict[int, int] = {}
    for item in range(count):
        layer = max((layers[source] + 1 for source in sources_of.get(item, ())), default=0)
        while filled.get(layer, 0) == _COLUMNS:
            layer += 1
        filled[layer] = filled.get(layer, 0) + 1
        layers.append(layer)
    return layers


def _corners(layers: Sequence[int]) -> list[tuple[float, float]]:
    """Return the upper left corner of each item; the items of a layer are centred."""
    counts: dict[int, int] = {}
    columns = []
    for layer in layers:
        columns.append(counts.get(layer, 0))
        counts[layer] = columns[-1] + 1
    return [
        ((_WIDTH - counts[layer] * _COLUMN) / 2 + column * _COLUMN + 8, 2.0 + layer * _LAYER)
        for layer, column in zip(layers, columns, strict=True)
    ]


def _lines(
    edges: Sequence[tuple[int, int]], corners: Sequence[tuple[float, float]]
) -> Iterator[str]:
    for source, target in edges[:_MOST_LINES]:
        (x, y), (to_x, to_y) = corners[source], corners[target]
        yield line(
            x + _BOX_WIDTH / 2,
            y + _BOX_HEIGHT,
            to_x + _BOX_WIDTH / 2,
            to_y,
            kind="graph-line",
        )


def _boxes(items: Sequence[_Item], corners: Sequence[tuple[float, float]]) -> Iterator[str]:
    for item, (x, y) in zip(items, corners, strict=True):
        yield box(
            x,
            y,
            _BOX_WIDTH,
            _BOX_HEIGHT,
            rx="5",
            kind="graph-box",
            title=f"{item.label}: {item.note}",
        )
        if item.provider is not None:
            yield box(x, y, 6, _BOX_HEIGHT, rx="3", kind=fill_kind(item.provider))
        label = shortened(item.label, _LONGEST_LABEL)
        yield text(x + 14, y + 17, label, kind="head")
        yield text(x + 14, y + 32, shortened(item.note, _LONGEST_NOTE), kind="small")
