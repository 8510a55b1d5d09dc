"""Run the transformers of a level to a fixed point, in all graphs of a model."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ortpkg.graph.graph import Graph
from ortpkg.graph.model import Model
from ortpkg.runtime.engine.transformers.order import TRANSFORMERS
from ortpkg.runtime.engine.transformers.transform_context import (
    GraphTransformer,
    TransformContext,
    TransformLevel,
)

_log = logging.getLogger(__name__)

#: onnxruntime's default is 10 too. A round that changes nothing ends it earlier, nearly always
#: after two or three.
MOST_ROUNDS = 10


def apply_transformers(
    model: Model, level: int, context: TransformContext, added: Sequence[GraphTransformer] = ()
) -> int:
    """Run the transformers of one level on ``model``, and return the number of changes.

    The engine calls it once per level, with the partition after the basic one.

    Args:
        model: model to change.
        level: level whose transformers run, and no other.
        context: context of the transformers.
        added: transformers that a caller adds to that level; they run after the built-in ones, in
            each round.
    """
    changes = 0
    for _ in range(MOST_ROUNDS):
        changed = sum(
            _apply_to_all(transformer, model.graph, context)
            for transformer in (*TRANSFORMERS[TransformLevel(level)], *added)
        )
        changes += changed
        if not changed:
            break
    return changes


def _apply_to_all(transformer: GraphTransformer, graph: Graph, context: TransformContext) -> int:
    """Apply a transformer to all sub-graphs of ``graph``, then to ``graph`` itself.

    The reader of models limits how deeply graphs are nested.
    """
    changes = 0
    for node in graph.nodes:
        if node.implicit_inputs or node.subgraphs:
            inner = sum(
                _apply_to_all(transformer, subgraph, context)
                for subgraph in node.subgraphs.values()
            )
            if inner:
                outer_values = (
                    value
                    for subgraph in node.subgraphs.values()
                    for value in subgraph.outer_values()
                )
                graph.set_implicit_inputs(node, tuple(dict.fromkeys(outer_values)))
            changes += inner
    own_changes = transformer.apply(graph, context)
    if own_changes:
        _log.debug("%s made %d changes in graph %r", transformer.name, own_changes, graph.name)
    return changes + own_changes
