"""Graph transformers and rewrite rules that the caller of a session adds.

They are unknown code: each is checked before it runs, an exception becomes an error that names the
transformer, and a graph whose inputs or outputs were changed is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ortpkg.foundations.errors import (
    InvalidSessionOptionError,
    OrtpkgError,
    SessionError,
    printable,
    quoted,
)
from ortpkg.graph.graph import Graph
from ortpkg.runtime.engine.transformers import (
    GraphTransformer,
    RewriteRule,
    TransformContext,
    TransformLevel,
)
from ortpkg.runtime.engine.transformers.rule_driver import RuleDriver

#: Level → graph transformers and rewrite rules of the caller, in order.
OwnTransformers = Mapping[TransformLevel, Sequence[GraphTransformer | RewriteRule]]
#: Level → transformers that run after the built-in ones of the level, in order.
AddedTransformers = Mapping[TransformLevel, tuple[GraphTransformer, ...]]

NO_TRANSFORMERS: AddedTransformers = MappingProxyType({})


def added_transformers(
    transformers: Mapping[Any, Iterable[GraphTransformer | RewriteRule]] | None,
) -> AddedTransformers:
    """Return the caller's transformers by level, each guarded against errors and misuse.

    Args:
        transformers: level (or its name) → transformers and rules; None for none.

    Raises:
        InvalidSessionOptionError: not a mapping of levels to lists, an unknown level, or an object
            that is neither a transformer nor a rule.
    """
    if transformers is not None and not isinstance(transformers, Mapping):
        raise _no_lists_by_level(transformers)
    guarded: dict[TransformLevel, tuple[GraphTransformer, ...]] = {}
    for key, additions in (transformers or {}).items():
        level = _level(key)
        if not isinstance(additions, Iterable):
            raise _no_lists_by_level(additions)
        guarded[level] = guarded.get(level, ()) + tuple(
            _GuardedTransformer(_as_transformer(addition)) for addition in additions
        )
    return guarded


def _no_lists_by_level(value: Any) -> InvalidSessionOptionError:
    return InvalidSessionOptionError(
        f"transformers: {quoted(type(value).__name__)} where {{level: [transformer or rule, ...]}}"
        " belongs",
        key="transformers",
    )


def _level(key: Any) -> TransformLevel:
    try:
        return TransformLevel[key.upper()] if isinstance(key, str) else TransformLevel(key)
    except (KeyError, ValueError) as error:
        names = ", ".join(f"TransformLevel.{level.name}" for level in TransformLevel)
        raise InvalidSessionOptionError(
            f"transformers: {quoted(key)} is none of {names}", key="transformers"
        ) from error


def _as_transformer(addition: Any) -> GraphTransformer:
    if isinstance(addition, RewriteRule):
        return RuleDriver(addition.name, [addition])
    if not isinstance(getattr(addition, "name", None), str) or not callable(
        getattr(addition, "apply", None)
    ):
        raise InvalidSessionOptionError(
            f"transformers: {quoted(type(addition).__name__)} is neither a RewriteRule nor a graph"
            " transformer, which has a name and apply(graph, context)",
            key="transformers",
        )
    transformer: GraphTransformer = addition
    return transformer


class _GuardedTransformer:
    """The caller's transformer; its errors name it, and it may not change the graph's interface."""

    def __init__(self, transformer: GraphTransformer) -> None:
        self.name = transformer.name
        self._transformer = transformer

    def apply(self, graph: Graph, context: TransformContext) -> int:
        """Apply the transformer and return the number of changes that it made.

        Raises:
            SessionError: the transformer failed, changed the graph's inputs or outputs, or did not
                return a number.
        """
        interface = (graph.inputs, graph.outputs)
        try:
            changes = self._transformer.apply(graph, context)
        except OrtpkgError:
            raise
        except Exception as error:
            reason = printable(error) or type(error).__name__
            raise SessionError(
                f"the graph transformer {quoted(self.name)} failed in graph {quoted(graph.name)}:"
                f" {reason}"
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
