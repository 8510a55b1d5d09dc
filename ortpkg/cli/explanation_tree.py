"""The explanation of a selection as lines of a tree."""

from __future__ import annotations

from collections.abc import Iterator

from ortpkg.selection.explanation import Explanation, Status

_STYLES = {
    Status.SELECTED: "bold green",
    Status.ELIGIBLE: "cyan",
    Status.REJECTED: "red",
    Status.WARNING: "yellow",
    Status.PLAIN: "",
}


def tree_lines(
    node: Explanation, lead: str = "", follow: str = ""
) -> Iterator[tuple[str, str, str]]:
    """A tree's lines with drawn branches: text, style, and what stands before further lines."""
    code = f"{node.code}  " if node.code else ""
    hang = f"{follow}{'│ ' if node.children else '  '} "
    yield f"{lead}{code}{node.label}", _STYLES[node.status], hang
    for place, child in enumerate(node.children):
        is_last = place == len(node.children) - 1
        branch, trunk = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        yield from tree_lines(child, follow + branch, follow + trunk)
