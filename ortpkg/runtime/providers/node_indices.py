"""Checks indices by which an execution provider names nodes: each must exist."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import SupportsIndex

from ortpkg.foundations.errors import ExecutionProviderError, quoted
from ortpkg.graph.graph import Graph


def verified_indices(ep_name: str, method: str, named: object, graph: Graph) -> list[int]:
    """Return the indices that a method of an execution provider named, each once.

    Args:
        ep_name: name of the execution provider, for messages.
        method: name of the method, for messages.
        named: result of the method.
        graph: graph of the nodes.

    Raises:
        ExecutionProviderError: ``named`` is no collection of indices, or one is not in the graph.
    """
    if not isinstance(named, Iterable) or isinstance(named, str | bytes):
        raise ExecutionProviderError(
            f"{ep_name}: {method} returned {quoted(named)} where a collection of nodes' indices"
            " (node.index) belongs",
            ep_name=ep_name,
        )
    indices: dict[int, None] = {}
    for value in named:
        if (
            not isinstance(value, SupportsIndex)
            or isinstance(value, bool)
            or not graph.has_node(index(value))
        ):
            raise ExecutionProviderError(
                f"{ep_name}: {method} names {quoted(value)}, and the graph has no node of that"
                " index; it names nodes by the index that each has (node.index), not by name or"
                " position",
                ep_name=ep_name,
            )
        indices[index(value)] = None
    return list(indices)
