"""Packs the facts of a graph for the page: JSON of texts and numbers, compressed, as base64.

``graph_data.js`` reads it. Base64 cannot end a script element, whatever the names in a model are.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ortpkg.foundations.drawing.svg import shortened, visible
from ortpkg.report.graph_folding import FoldGroup, fold

if TYPE_CHECKING:
    from ortpkg.report.graph_facts import GraphFacts, GraphStage, NodeFact

#: Version of the format; the script refuses others.
PAYLOAD_VERSION = 1
#: Most characters of one text.
_MOST_CHARACTERS = 1000
#: Number for None in lists of numbers.
_NONE = -1


class _Texts:
    """Numbers of texts; equal texts have the same number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def numbers(self, texts: Iterable[str]) -> list[int]:
        return [self.number(text) for text in texts]

    def listed(self) -> tuple[str, ...]:
        return tuple(self._numbers)


def packed_graph(facts: GraphFacts) -> str:
    """Return the facts of one graph with its fold trees, as text for a data block."""
    texts = _Texts()
    document = {
        "version": PAYLOAD_VERSION,
        "path": facts.path,
        "providers": list(facts.providers),
        "partitions": [
            [partition.provider, texts.number(partition.fused_node), partition.node_count]
            for partition in facts.partitions
        ],
        "before": _stage(facts.before, texts),
        "after": None if facts.after is None else _stage(facts.after, texts),
    }
    shown = [shortened(visible(text), _MOST_CHARACTERS) for text in texts.listed()]
    return packed_text(json.dumps(document | {"texts": shown}, separators=(",", ":")))


def packed_text(text: str) -> str:
    """Return text compressed with zlib as base64; the page's ``unpackText`` reverses it."""
    # A lone surrogate, impossible in a model but not in a made-up name, has no UTF-8.
    data = text.encode("utf-8", "replace")
    return base64.b64encode(zlib.compress(data, 9)).decode("ascii")


def unpacked_text(packed: str) -> str:
    """Return the text that :func:`packed_text` packed."""
    return zlib.decompress(base64.b64decode(packed)).decode("utf-8")


def _stage(stage: GraphStage, texts: _Texts) -> Mapping[str, object]:
    tree = fold(stage.nodes)
    values = _Texts()
    inputs = [values.numbers(node.inputs) for node in stage.nodes]
    outputs = [values.numbers(node.outputs) for node in stage.nodes]
    ends = {"inputs": values.numbers(stage.inputs), "outputs": values.numbers(stage.outputs)}
    names = values.listed()
    return {
        "nodes": _nodes(stage.nodes, texts)
        | {
            "inputCounts": [len(item) for item in inputs],
            "inputs": _differences(number for item in inputs for number in item),
            "outputCounts": [len(item) for item in outputs],
            "outputs": _differences(number for item in outputs for number in item),
            "groups": list(tree.group_of),
        },
        "values": _differences(texts.numbers(names)),
        "types": texts.numbers(stage.values.get(name, "") for name in names),
        "groups": [_group(item, texts) for item in tree.groups],
        "leftOut": stage.left_out,
    } | ends


def _nodes(nodes: Iterable[NodeFact], texts: _Texts) -> dict[str, list[int]]:
    nodes = tuple(nodes)
    return {
        "names": _differences(texts.numbers(node.name for node in nodes)),
        "operators": texts.numbers(node.op_type for node in nodes),
        "domains": texts.numbers(node.domain for node in nodes),
        "kernels": texts.numbers(node.kernel for node in nodes),
        "providers": [_number(node.provider) for node in nodes],
        "partitions": [_number(node.partition) for node in nodes],
        "steps": [_number(node.step) for node in nodes],
    }


def _group(group: FoldGroup, texts: _Texts) -> list[object]:
    return [
        texts.number(group.label),
        _number(group.parent),
        int(group.is_run),
        group.node_count,
        [[texts.number(name), count] for name, count in group.operators],
        [[_number(provider), count] for provider, count in group.providers],
        _number(group.partition),
    ]


def _differences(numbers: Iterable[int]) -> list[int]:
    """Return each number minus the one before; evenly rising numbers then compress well."""
    listed = list(numbers)
    return [number - before for before, number in zip([0, *listed], listed, strict=False)]


def _number(index: int | None) -> int:
    return _NONE if index is None else index
