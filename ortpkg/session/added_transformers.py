"""Graph transformers and rewrite rules of a caller's own, as a session takes them.

What a caller hands in is code that we do not know: it is checked before it runs, what it raises
becomes an error that names it, and a graph whose inputs or outputs it changed is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ortpkg.engine.transformers import (
    GraphTransformer,
    RewriteRule,
    TransformContext,
    TransformLevel,
)
from ortpkg.engine.transformers.rule_driver import RuleDriver
from ortpkg.errors import InvalidSessionOptionError, OrtpkgError, SessionError, printable, quoted
from ortpkg.graph.graph import Graph

#: Level → a caller's own graph transformers and rewrite rules, in order.
OwnTransformers = Mapping[TransformLevel, Sequence[GraphTransformer | RewriteRule]]
#: Level → what is added to it, in order.
AddedTransformers = Mapping[TransformLevel, tuple[GraphTransformer, ...]]

NO_TRANSFORMERS: AddedTransformers = MappingProxyType({})


def added_transformers(
    given: Mapping[Any, Iterable[GraphTransformer | RewriteRule]] | None,
) -> AddedTransformers:
    """What ``given`` (level → transformers and rules) adds, guarded.

    Raises InvalidSessionOptionError for what is no mapping of levels to lists, a level that there
    is not, and what is neither transformer nor rule.
    """
    if given is not None and not isinstance(given, Mapping):
        raise _no_lists_by_level(given)
    found: dict[TransformLevel, tuple[GraphTransformer, ...]] = {}
    for key, each in (given or {}).items():
        level = _level(key)
        if not isinstance(each, Iterable):
            raise _no_lists_by_level(each)
        found[level] = found.get(level, ()) + tuple(
            _GuardedTransformer(_as_transformer(one)) for one in each
        )
    return found


def _no_lists_by_level(given: Any) -> InvalidSessionOptionError:
    return InvalidSessionOptionError(
        f"transformers: {quoted(type(given).__name__)} where {{level: [transformer or rule, ...]}}"
        " belongs",
        key="transformers",
    )


def _level(key: Any) -> TransformLevel:
    try:
        return TransformLevel[key.upper()] if isinstance(key, str) else TransformLevel(key)
    except (KeyError, ValueError) as error:
        known = ", ".join(f"TransformLevel.{level.name}" for level in TransformLevel)
        raise InvalidSessionOptionError(
            f"transformers: {quoted(key)} is none of {known}", key="transformers"
        ) from error


def _as_transformer(one: Any) -> GraphTransformer:
    if isinstance(one, RewriteRule):
        return RuleDriver(one.name, [one])
    if not isinstance(getattr(one, "name", None), str) or not callable(getattr(one, "apply", None)):
        raise InvalidSessionOptionError(
            f"transformers: {quoted(type(one).__name__)} is neither a RewriteRule nor a graph"
            " transformer, which has a name and apply(graph, context)",
            key="transformers",
        )
    transformer: GraphTransformer = one
    return transformer


class _GuardedTransformer:
    """Around a transformer of the caller's."""

    def __init__(self, transformer: GraphTransformer) -> None:
        self.name = transformer.name
        self._transformer = transformer

    def apply(self, graph: Graph, context: TransformContext) -> int:
        """Applies it; SessionError names it where it fails or changes the graph's interface."""
        interface = (graph.inputs, graph.outputs)
        try:
            changes = self._transformer.apply(graph, context)
        except OrtpkgError:
            raise
        except Exception as error:
            said = printable(error) or type(error).__name__
            raise SessionError(
                f"the graph transformer {quoted(self.name)} failed in graph {quoted(graph.name)}:"
                f" {said}"
            ) from error
        if (graph.inputs, graph.outputs) != interface:
            raise SessionError(
                f"the graph transformer {quoted(self.name)} changed the inputs or outputs of graph "
                f"{quoted(graph.name)}; they belong to the caller"
            )
        if isinstance(changes, bool) or not isinstance(changes, int):
            raise SessionError(
                f"the graph transformer {quoted(self.name)} must return how many changes it made,"
                f" not {quoted(changes)}"
            )
        return changes
