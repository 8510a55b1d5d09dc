"""Reasons of providers for leaving nodes to later providers, by node and by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ortpkg.runtime.engine.partition import Partition

#: Most reasons and operators that a line names; there may be as many as nodes.
_MOST_REASONS, _MOST_OPERATORS = 3, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedNode:
    """A node that a provider was asked about and left.

    Attributes:
        provider: name of the provider that left it.
        reason: reason in the provider's words.
        runs_on: name of the provider that runs it.
        name, op_type: the node, as it was before fusing.
        graph_path: "" for the main graph, else the path of the sub-graph.
    """

    provider: str
    reason: str
    runs_on: str
    name: str
    op_type: str
    graph_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalGroup:
    """Nodes that a provider left for one reason.

    Attributes:
        provider: name of the provider.
        reason: reason in the provider's words.
        op_types: operator → number of nodes, the most first.
    """

    provider: str
    reason: str
    op_types: Mapping[str, int]

    @property
    def node_count(self) -> int:
        """Number of nodes of all operators."""
        return sum(self.op_types.values())

    @property
    def operators_text(self) -> str:
        """Operators with their counts: "12 Loop, 3 If, and 2 more"."""
        named = [f"{count} {name}" for name, count in self.op_types.items()][:_MOST_OPERATORS]
        more = len(self.op_types) - len(named)
        return ", ".join([*named, f"and {more} more"] if more else named)


def refused_nodes(partitions: Iterable[Partition]) -> Iterator[RefusedNode]:
    """Yield each node with each provider that gives a reason for leaving it, in partition order."""
    for partition in partitions:
        for name, op_type in zip(partition.node_names, partition.op_types, strict=True):
            for provider, reason in partition.refusals.get(name, {}).items():
                yield RefusedNode(
                    provider=provider,
                    reason=reason,
                    runs_on=partition.provider,
                    name=name,
                    op_type=op_type,
                    graph_path=partition.graph_path,
                )


def refusal_groups(partitions: Iterable[Partition]) -> tuple[RefusalGroup, ...]:
    """Return the refused nodes by provider and reason, the reasons for most nodes first."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for node in refused_nodes(partitions):
        counts.setdefault((node.provider, node.reason), Counter())[node.op_type] += 1
    groups = [
        RefusalGroup(provider=provider, reason=reason, op_types=dict(operator_counts.most_common()))
        for (provider, reason), operator_counts in counts.items()
    ]
    return tuple(sorted(groups, key=lambda group: -group.node_count))


def refusal_summary(partitions: Iterable[Partition]) -> str:
    """Return the reasons for most nodes in one line; "" if no provider gives one."""
    groups = refusal_groups(partitions)
    texts = [
        f"{group.provider} left {group.operators_text}: {group.reason}"
        for group in groups[:_MOST_REASONS]
    ]
    more = len(groups) - len(texts)
    return "; ".join([*texts, f"and {more} reasons more"] if more else texts)
