"""Elements and documents of SVG; every text in them is escaped here."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def document(
    parts: Iterable[str], *, width: int, height: int, title: str, style: str, definitions: str = ""
) -> str:
    """A white picture of ``parts``, with its title for those who cannot see it."""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        f' width="{width}" height="{height}">\n<title>{shown(title)}</title>\n'
        f"<style>{style}</style>\n{definitions}"
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def text(x: float, y: float, words: str, *, note: str = "", **attributes: str) -> str:
    """``words`` from (x, y) on; ``note`` follows them in small letters."""
    tail = f' <tspan class="small">{shown(note)}</tspan>' if note else ""
    return f"<text{_listed({'x': x, 'y': y, **attributes})}>{shown(words)}{tail}</text>"


def line(x1: float, y1: float, x2: float, y2: float, **attributes: str) -> str:
    """A line from (x1, y1) to (x2, y2)."""
    return f"<line{_listed({'x1': x1, 'y1': y1, 'x2': x2, 'y2': y2, **attributes})}/>"


def box(
    x: float, y: float, width: float, height: float, *, title: str = "", **attributes: str
) -> str:
    """A rectangle; ``title`` is shown where one points at it."""
    own = _listed({"x": x, "y": y, "width": width, "height": height, **attributes})
    return f"<rect{own}><title>{shown(title)}</title></rect>" if title else f"<rect{own}/>"


def shortened(words: str, most: int) -> str:
    """``words`` in at most so many characters."""
    return words if len(words) <= most else words[: max(most - 1, 1)] + "…"


def shown(words: str) -> str:
    """``words`` for XML, which has no control characters, not even escaped.

    Names of models and values come from strangers.
    """
    return escape(
        "".join(
            each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
            for each in words
        )
    )


def _listed(attributes: dict[str, str | float]) -> str:
    """Attributes as XML has them: ``text_anchor`` is text-anchor, ``kind`` the class."""
    return "".join(
        f' {"class" if name == "kind" else name.replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
    )


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return shown(value)
    return f"{value:.2f}".rstrip("0").rstrip(".")
