"""Theme of pictures and pages: colours for light and dark screens, fonts, and kinds of shapes.

Colours are CSS custom properties. One stylesheet serves a page and all its pictures, and a picture
that stands alone follows the reader's system. Prints have the light colours on white. Shapes state
their kind (``kind="bar"``), and only this module says how a kind looks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

#: Number of fills for execution providers and other series: ``ep-0``, ``ep-1`` ...
FILL_COUNT = 10


class Shade(NamedTuple):
    """One colour of the theme, on a light and on a dark screen."""

    light: str
    dark: str


#: Colours by the name of their custom property, without its two hyphens. Texts are ``ink`` or
#: ``faint``; both are readable on ``ground``, ``panel`` and names that end in ``-soft``, and
#: ``ink`` on the fills, too. ``accent``, ``good``, ``warn`` and ``bad`` are readable on ``ground``
#: and ``panel``, and the last three on their own ``-soft``.
THEME: Mapping[str, Shade] = {
    "ground": Shade("#f4f6f8", "#0f151b"),
    "panel": Shade("#ffffff", "#18212a"),
    "ink": Shade("#1b2530", "#e6edf3"),
    "faint": Shade("#51606d", "#a3b1bd"),
    "grid": Shade("#d8dfe6", "#33404c"),
    "accent": Shade("#1f5fa8", "#74b6f6"),
    "good": Shade("#17692e", "#5fca7c"),
    "warn": Shade("#835300", "#e3b341"),
    "bad": Shade("#b3261e", "#ff8f85"),
    "good-soft": Shade("#def3e3", "#14351f"),
    "warn-soft": Shade("#fcefcd", "#3b2d0b"),
    "bad-soft": Shade("#fde5e2", "#471d1c"),
    "ep-0": Shade("#9ccaf0", "#1f5586"),
    "ep-1": Shade("#f8bf88", "#7d4a12"),
    "ep-2": Shade("#a6dba6", "#28633a"),
    "ep-3": Shade("#d8b9ef", "#624086"),
    "ep-4": Shade("#f1e088", "#685c0f"),
    "ep-5": Shade("#f4a6a4", "#84353b"),
    "ep-6": Shade("#8edcd3", "#11645e"),
    "ep-7": Shade("#d5c3aa", "#5b4d39"),
    "ep-8": Shade("#f1b4d9", "#7d3265"),
    "ep-9": Shade("#c4cdd7", "#48545f"),
}

_FILLS = "\n".join(
    f".picture .ep-{number} {{ fill: var(--ep-{number}); }}" for number in range(FILL_COUNT)
)
_KINDS = f"""
.picture {{ font: 13px/1.3 system-ui, sans-serif; max-width: none; }}
.picture text {{ fill: var(--ink); }}
.picture .title {{ font-size: 17px; font-weight: 600; }}
.picture .head {{ font-weight: 600; }}
.picture .name {{ font-size: 11px; }}
.picture .small {{ font-size: 11px; fill: var(--faint); }}
.picture .flag {{ fill: var(--bad); font-weight: 600; }}
.picture .ground {{ fill: var(--ground); }}
.picture .panel {{ fill: var(--panel); }}
.picture .axis {{ stroke: var(--ink); }}
.picture .grid {{ stroke: var(--grid); }}
.picture .level {{ stroke: var(--bad); }}
.picture .bar {{ fill: var(--ep-0); stroke: var(--accent); }}
.picture .hatch {{ fill: var(--bad-soft); }}
.picture .hatch-line {{ fill: var(--bad); }}
.picture .area {{ fill: var(--accent); fill-opacity: 0.3; stroke: var(--accent); }}
.picture .dot {{ fill: var(--ink); }}
.picture .good {{ fill: var(--good); }}
.picture .mark {{ fill: var(--bad); }}
.picture .outlined {{ stroke: var(--ink); stroke-width: 0.5; }}
.picture .whisker {{ stroke: var(--ink); stroke-width: 1.5; }}
{_FILLS}
"""
_DECLARATION = re.compile(r"([a-z-]+): var\(--([a-z0-9-]+)\);")


def stylesheet() -> str:
    """Return CSS for a page with pictures: the theme's custom properties, and how shapes look.

    The page may set ``data-theme`` of its root element to ``light`` or ``dark``, which takes
    precedence over the reader's system.
    """
    light = _properties({name: shade.light for name, shade in THEME.items()})
    dark = _properties({name: shade.dark for name, shade in THEME.items()})
    # Nothing is dark on paper, so the rules for dark screens apply to screens only.
    return (
        f":root {{ color-scheme: light; {light} }}\n"
        "@media screen and (prefers-color-scheme: dark) {"
        f" :root:not([data-theme=light]) {{ color-scheme: dark; {dark} }} }}\n"
        f"@media screen {{ :root[data-theme=dark] {{ color-scheme: dark; {dark} }} }}\n"
        f"@media print {{ :root {{ --ground: {THEME['panel'].light}; }} }}\n"
        f"{_KINDS.strip()}\n"
    )


def document_style() -> str:
    """Return the stylesheet for a picture that stands alone.

    Each colour is also stated plainly, for viewers without custom properties.
    """
    return _DECLARATION.sub(
        lambda match: f"{match[1]}: {THEME[match[2]].light}; {match[0]}", stylesheet()
    )


def fill_kind(number: int) -> str:
    """Return the kind of a shape with the fill of that number; fills repeat after the last."""
    return f"ep-{number % FILL_COUNT}"


def _properties(colours: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())
