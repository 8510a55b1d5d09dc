"""SVG elements, documents and inline figures; every text in them is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from ortpkg.foundations.drawing.palette import document_style

#: Most characters of a text in a tooltip.
_LONGEST_WHOLE = 1_000


def document(
    parts: Iterable[str], *, width: int, height: int, title: str, description: str = ""
) -> str:
    """Return a picture that stands alone, with the theme and its own background.

    Args:
        parts: The elements.
        width, height: Size of the picture, in the units of its elements.
        title: Title, for those who cannot see it.
        description: What can be seen in it, for the same.
    """
    ground = box(0, 0, width, height, kind="ground")
    style = f"<style>{document_style()}</style>"
    namespace = ' xmlns="http://www.w3.org/2000/svg"'
    return _picture(
        [style, ground, *parts], namespace, width, height, ("picture", title, description)
    )


def figure(
    parts: Iterable[str], *, width: int, height: int, name: str, title: str, description: str = ""
) -> str:
    """Return a picture within a page that has the style sheet of ``palette`` once.

    Args:
        parts: The elements.
        width, height: Size of the picture in CSS pixels.
        name: Prefix of the ids, unique on the page: letters, digits, "-".
        title: Title, for those who cannot see it.
        description: What can be seen in it, for the same.
    """
    return _picture(parts, "", width, height, (name, title, description))


def _picture(
    parts: Iterable[str], namespace: str, width: int, height: int, labels: tuple[str, str, str]
) -> str:
    name, title, description = labels
    described = f"<desc id={_quoted(f'{name}-desc')}>{shown(description)}</desc>\n"
    label = f"{name}-title {name}-desc" if description else f"{name}-title"
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    body = "\n".join(parts)
    return (
        f'<svg{namespace} class="picture" role="img" aria-labelledby={_quoted(label)} {size}>\n'
        f"<title id={_quoted(f'{name}-title')}>{shown(title)}</title>\n"
        f"{described if description else ''}{body}\n</svg>\n"
    )


def text(x: float, y: float, words: str, *, note: str = "", **attributes: str) -> str:
    """Return ``words`` at (x, y), followed by ``note`` in small letters."""
    tail = f' <tspan class="small">{shown(note)}</tspan>' if note else ""
    return f"<text{_listed({'x': x, 'y': y, **attributes})}>{shown(words)}{tail}</text>"


def label(x: float, y: float, words: str, most: int, **attributes: str) -> str:
    """Return ``words`` in at most ``most`` characters, with the whole text as a tooltip."""
    if len(words) <= most:
        return text(x, y, words, **attributes)
    whole = shown(shortened(words, _LONGEST_WHOLE))
    attribute_text = _listed({"x": x, "y": y, **attributes})
    return f"<text{attribute_text}>{shown(shortened(words, most))}<title>{whole}</title></text>"


def line(x1: float, y1: float, x2: float, y2: float, **attributes: str) -> str:
    """Return a line from (x1, y1) to (x2, y2)."""
    return f"<line{_listed({'x1': x1, 'y1': y1, 'x2': x2, 'y2': y2, **attributes})}/>"


def box(
    x: float, y: float, width: float, height: float, *, title: str = "", **attributes: str
) -> str:
    """Return a rectangle, with at most a thousand characters of ``title`` as a tooltip."""
    attribute_text = _listed({"x": x, "y": y, "width": width, "height": height, **attributes})
    if not title:
        return f"<rect{attribute_text}/>"
    return f"<rect{attribute_text}><title>{shown(shortened(title, _LONGEST_WHOLE))}</title></rect>"


def boxes(rectangles: Iterable[tuple[float, float, float, float]], **attributes: str) -> str:
    """Return rectangles (x, y, width, height) as one element.

    One element for all has a fifth of the characters of one for each.
    """
    path = "".join(
        f"M{_number(x)} {_number(y)}h{_number(width)}v{_number(height)}h-{_number(width)}z"
        for x, y, width, height in rectangles
    )
    return f"<path{_listed({'d': path, **attributes})}/>"


def dot(x: float, y: float, radius: float, **attributes: str) -> str:
    """Return a disc around (x, y)."""
    return f"<circle{_listed({'cx': x, 'cy': y, 'r': radius, **attributes})}/>"


def area(points: Sequence[tuple[float, float]], floor: float, **attributes: str) -> str:
    """Return the area between ``floor`` and a line through ``points``, at least one."""
    first, last = points[0][0], points[-1][0]
    corners = [(first, floor), *points, (last, floor)]
    path = " ".join(f"{_number(x)},{_number(y)}" for x, y in corners)
    return f"<polygon{_listed({'points': path, **attributes})}/>"


def group(parts: Iterable[str], **attributes: str) -> str:
    """Return elements with common attributes."""
    return f"<g{_listed({**attributes})}>{''.join(parts)}</g>"


def hatching(name: str) -> str:
    """Return the definition of a hatching for faults, to be used as ``fill=f"url(#{name})"``.

    ``name`` is an id that nothing else in the page or picture has.
    """
    return (
        f'<defs><pattern id={_quoted(name)} width="6" height="6"'
        ' patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f"{box(0, 0, 6, 6, kind='hatch')}{box(0, 0, 2, 6, kind='hatch-line')}</pattern></defs>"
    )


def shortened(words: str, most: int) -> str:
    """Return ``words`` in at most ``most`` characters."""
    return words if len(words) <= most else words[: max(most - 1, 1)] + "…"


def visible(words: str) -> str:
    r"""Return ``words`` with invisible characters as escapes: "\\n", "\\x1b", "\\u202e".

    These are control characters, which XML does not allow, characters that turn the direction of
    writing or have no width, and all spaces but the common one. Markup is not escaped.
    """
    if words.isprintable():
        return words
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in words
    )


def shown(words: str) -> str:
    """Return ``words`` for XML and HTML: :func:`visible`, and with markup escaped.

    Names of models and values are not trusted.
    """
    return escape(visible(words))


def _listed(attributes: dict[str, str | float]) -> str:
    """Return attributes as XML has them: ``text_anchor`` is text-anchor, ``kind`` the class."""
    return "".join(
        f" {'class' if name == 'kind' else name.replace('_', '-')}={_quoted(value)}"
        for name, value in attributes.items()
    )


def _quoted(value: str | float) -> str:
    return f'"{shown(value) if isinstance(value, str) else _number(value)}"'


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
