"""Trees as lines of text, with drawn branches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class TreeNode(NamedTuple):
    """One line of a tree, in a style, and what hangs from it."""

    text: str
    children: tuple[TreeNode, ...] = ()
    style: str = ""


def drawn(
    node: TreeNode, *, is_unicode: bool = True, lead: str = "", follow: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Text, style, and what stands before further lines of the text, for each line of a tree.

    Args:
        node: the tree.
        is_unicode: whether branches are drawn with lines; with ASCII otherwise.
        lead: what stands before the first line.
        follow: what stands before the others.
    """
    stem = "│" if is_unicode else "|"
    yield f"{lead}{node.text}", node.style, f"{follow}{stem if node.children else ' '}  "
    middle, end = ("├─ ", "└─ ") if is_unicode else ("|- ", "`- ")
    for place, child in enumerate(node.children):
        is_last = place == len(node.children) - 1
        yield from drawn(
            child,
            is_unicode=is_unicode,
            lead=follow + (end if is_last else middle),
            follow=follow + ("   " if is_last else f"{stem}  "),
        )
