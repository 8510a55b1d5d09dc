"""Nodes that an execution provider names by their indices: each must be there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from ortpkg.errors import ExecutionProviderError, quoted
from ortpkg.graph.graph import Graph


def verify_indices(ep_name: str, method: str, named: Iterable[object], graph: Graph) -> None:
    """Raises ExecutionProviderError where what ``method`` named is no index of a node of ``graph``."""
    for each in named:
        if not isinstance(each, SupportsIndex) or not graph.has_node(each.__index__()):
            raise ExecutionProviderError(
                f"{ep_name}: {method} names {quoted(each)}, and the graph has no node of that index; it names nodes by "
                f"the index that each has (node.index), not by name or position",
                ep_name=ep_name,
            )
