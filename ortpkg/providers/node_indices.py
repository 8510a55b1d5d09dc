"""Nodes that an execution provider names by their indices: each must be there."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import SupportsIndex

from ortpkg.errors import ExecutionProviderError, quoted
from ortpkg.graph.graph import Graph


def verified_indices(ep_name: str, method: str, named: object, graph: Graph) -> list[int]:
    """What ``method`` named, as numbers.

    ExecutionProviderError for what names no node of ``graph``, or names nothing.

    Whoever names a node twice says no more than whoever names it once.
    """
    if not isinstance(named, Iterable) or isinstance(named, str | bytes):
        raise ExecutionProviderError(
            f"{ep_name}: {method} returned {quoted(named)} where a collection of nodes' indices"
            " (node.index) belongs",
            ep_name=ep_name,
        )
    found: dict[int, None] = {}
    for each in named:
        if (
            not isinstance(each, SupportsIndex)
            or isinstance(each, bool)
            or not graph.has_node(index(each))
        ):
            raise ExecutionProviderError(
                f"{ep_name}: {method} names {quoted(each)}, and the graph has no node of that"
                " index; it names nodes by the index that each has (node.index), not by name or"
                " position",
                ep_name=ep_name,
            )
        found[index(each)] = None
    return list(found)
