"""Explanation of a selection as lines of a tree."""

from __future__ import annotations

from collections.abc import Iterator

from ortpkg.cli.tree_drawing import TreeNode, drawn
from ortpkg.selection.matching.explanation import Explanation, Status

_STYLES = {
    Status.SELECTED: "bold green",
    Status.ELIGIBLE: "cyan",
    Status.REJECTED: "red",
    Status.WARNING: "yellow",
    Status.PLAIN: "",
}


def tree_lines(explanation: Explanation) -> Iterator[tuple[str, str, str]]:
    """Return the lines of a tree with branches: text, style, and prefix of continuation lines."""
    return drawn(_node(explanation))


def _node(explanation: Explanation) -> TreeNode:
    code = f"{explanation.code}  " if explanation.code else ""
    return TreeNode(
        f"{code}{explanation.label}",
        tuple(map(_node, explanation.children)),
        style=_STYLES[explanation.status],
    )
