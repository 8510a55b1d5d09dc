"""Folds a graph's nodes into groups by the modules in their names, for a view that opens a few.

No group has more than ``MOST_CHILDREN`` children. If modules have more, or names have none, runs of
consecutive children in execution order become groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ortpkg.report.graph_facts import NodeFact


#: Most children of an opened group.
MOST_CHILDREN = 120
#: Most nested modules; the names of deeper ones are joined in the last group's name.
MOST_DEPTH = 12
_MOST_OPERATORS_NAMED = 4
#: Separators of module names, in the order in which they are tried.
_SEPARATORS = ("/", "::", ".")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldGroup:
    """Group of nodes that is shown as one item while it is folded.

    Attributes:
        label: Name of the module within its group, "a/b" if ``a`` holds nothing but ``b``; words
            for a run of nodes; "" for the whole graph.
        is_run: True if only the execution order holds it together.
        parent: Index of the surrounding group, smaller than its own; None for the whole graph.
        node_count: Number of nodes inside, including inner groups.
        operators: Most frequent operators inside, with counts.
        providers: Index of each provider (None for nodes that no step runs), with counts.
        partition: Partition of all its nodes, or None if they are in several.
    """

    label: str
    is_run: bool
    parent: int | None
    node_count: int
    operators: tuple[tuple[str, int], ...]
    providers: tuple[tuple[int | None, int], ...]
    partition: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldTree:
    """Groups, the whole graph first, and the index of the innermost group of each node."""

    groups: tuple[FoldGroup, ...]
    group_of: tuple[int, ...]


@dataclass(slots=True)
class _Branch:
    """Group while the tree is built.

    Its children are node indices and branches, sorted by first node.
    """

    label: str
    is_run: bool = False
    children: list[int | _Branch] = field(default_factory=list)
    by_name: dict[str, _Branch] = field(default_factory=dict)
    first: int = 0
    last: int = 0


def fold(nodes: Sequence[NodeFact]) -> FoldTree:
    """Return the fold tree of nodes in execution order."""
    root = _by_scope(nodes)
    _merge_chains(root)
    _part(root)
    return _tree(root, nodes)


def scope_of(name: str) -> tuple[str, ...]:
    """Return the modules in a node's name, outermost first: "/encoder/layer.0/Add" has two."""
    separator = next((text for text in _SEPARATORS if text in name.strip(text)), None)
    if separator is None:
        return ()
    parts = [part for part in name.split(separator) if part]
    return tuple(parts[:-1])


def _by_scope(nodes: Sequence[NodeFact]) -> _Branch:
    root = _Branch("")
    for index, node in enumerate(nodes):
        branch = root
        for name in _bounded(node.scope or scope_of(node.name)):
            inner = branch.by_name.get(name)
            if inner is None:
                inner = branch.by_name[name] = _Branch(name, first=index)
                branch.children.append(inner)
            inner.last = index
            branch = inner
        branch.children.append(index)
    root.last = max(len(nodes) - 1, 0)
    return root


def _bounded(scope: tuple[str, ...]) -> tuple[str, ...]:
    if len(scope) <= MOST_DEPTH:
        return scope
    return (*scope[: MOST_DEPTH - 1], "/".join(scope[MOST_DEPTH - 1 :]))


def _merge_chains(branch: _Branch) -> None:
    """Replace each group that holds only one group by that group."""
    branch.children = [_merged(child) for child in branch.children]
    only = branch.children[0] if len(branch.children) == 1 else None
    if not branch.label and isinstance(only, _Branch):
        branch.children = only.children


def _merged(child: int | _Branch) -> int | _Branch:
    if isinstance(child, int):
        return child
    _merge_chains(child)
    if len(child.children) > 1:
        return child
    only = child.children[0]
    if isinstance(only, _Branch):
        only.label = f"{child.label}/{only.label}"
    return only


def _part(branch: _Branch) -> None:
    """Group the children of groups that have too many into runs."""
    for child in branch.children:
        if isinstance(child, _Branch):
            _part(child)
    while len(branch.children) > MOST_CHILDREN:
        branch.children = list(_runs(branch.children))


def _runs(children: Sequence[int | _Branch]) -> Iterator[_Branch]:
    """Yield groups of about equally many children, as few groups as the limit allows."""
    count = -(-len(children) // MOST_CHILDREN)
    for number in range(count):
        first = number * len(children) // count
        run = list(children[first : (number + 1) * len(children) // count])
        yield _Branch("", is_run=True, children=run, first=_first(run[0]), last=_last(run))


def _first(child: int | _Branch) -> int:
    return child if isinstance(child, int) else child.first


def _last(children: Iterable[int | _Branch]) -> int:
    return max(child if isinstance(child, int) else child.last for child in children)


def _tree(root: _Branch, nodes: Sequence[NodeFact]) -> FoldTree:
    """Number the groups from outside in, each level in execution order."""
    branches: list[tuple[_Branch, int | None]] = [(root, None)]
    group_of = [0] * len(nodes)
    for number, (branch, _) in enumerate(branches):  # the list grows during the loop
        for child in branch.children:
            if isinstance(child, int):
                group_of[child] = number
            else:
                branches.append((child, number))
    members: list[list[int]] = [[] for _ in branches]
    for index, number in enumerate(group_of):
        around: int | None = number
        while around is not None:
            members[around].append(index)
            around = branches[around][1]
    return FoldTree(
        groups=tuple(
            _group(branch, parent, [nodes[index] for index in inside])
            for (branch, parent), inside in zip(branches, members, strict=True)
        ),
        group_of=tuple(group_of),
    )


def _group(branch: _Branch, parent: int | None, inside: Sequence[NodeFact]) -> FoldGroup:
    partitions = {node.partition for node in inside}
    return FoldGroup(
        label=f"nodes {branch.first + 1} to {branch.last + 1}" if branch.is_run else branch.label,
        is_run=branch.is_run,
        parent=parent,
        node_count=len(inside),
        operators=tuple(
            Counter(node.op_type for node in inside).most_common(_MOST_OPERATORS_NAMED)
        ),
        providers=tuple(Counter(node.provider for node in inside).most_common()),
        partition=partitions.pop() if len(partitions) == 1 else None,
    )
