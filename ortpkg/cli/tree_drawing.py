"""Trees as lines of text, with drawn branches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class TreeNode(NamedTuple):
    """One line of a tree with its style and children."""

    text: str
    children: tuple[TreeNode, ...] = ()
    style: str = ""


def drawn(
    node: TreeNode, *, is_unicode: bool = True, lead: str = "", follow: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Yield text, style, and prefix of continuation lines, for each line of a tree.

    Args:
        node: The tree.
        is_unicode: True to draw branches with lines, False for ASCII.
        lead: Prefix of the first line.
        follow: Prefix of the other lines.
    """
    stem = "│" if is_unicode else "|"
    yield f"{lead}{node.text}", node.style, f"{follow}{stem if node.children else ' '}  "
    middle, end = ("├─ ", "└─ ") if is_unicode else ("|- ", "`- ")
    for index, child in enumerate(node.children):
        is_last = index == len(node.children) - 1
        yield from drawn(
            child,
            is_unicode=is_unicode,
            lead=follow + (end if is_last else middle),
            follow=follow + ("   " if is_last else f"{stem}  "),
        )
