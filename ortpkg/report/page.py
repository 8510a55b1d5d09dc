"""Report as one HTML file: sections through their templates, with styles and scripts inlined.

The page loads nothing: its Content-Security-Policy forbids every request, and allows the styles and
scripts only by their digests (https://www.w3.org/TR/CSP3/).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortpkg.foundations.drawing.palette import stylesheet
from ortpkg.foundations.drawing.svg import shortened, visible
from ortpkg.foundations.version import __version__
from ortpkg.report.report_subject import ReportSubject
from ortpkg.report.sections.bench_section import bench_section
from ortpkg.report.sections.finding_section import finding_section
from ortpkg.report.sections.graph_section import graph_section
from ortpkg.report.sections.integrity_section import integrity_section
from ortpkg.report.sections.memory_section import memory_section
from ortpkg.report.sections.order_section import order_section
from ortpkg.report.sections.package_section import package_section
from ortpkg.report.sections.section import Section
from ortpkg.report.sections.selection_section import selection_section

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER = Path(__file__).parent
_STYLES = ("report.css", "package.css", "selection.css", "graph_view.css")
_SCRIPTS = (
    "report.js",
    "verdict_matrix.js",
    "graph_data.js",
    "graph_scene.js",
    "graph_layouter.js",
    "graph_picture.js",
    "graph_camera.js",
    "graph_search.js",
    "graph_details.js",
    "graph_view.js",
)


#: Most characters of one text in a table or tooltip; longer ones are cut.
_LONGEST_TEXT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionKind:
    """One section of the page.

    Attributes:
        id: Id of its element; its template is ``templates/<id>.html.j2``.
        title: Heading of the section.
        make: Makes the section of a subject.
    """

    id: str
    title: str
    make: Callable[[ReportSubject], Section]


#: Sections in the order of the page.
SECTIONS: tuple[SectionKind, ...] = (
    SectionKind(id="package", title="Package", make=package_section),
    SectionKind(id="selection", title="Selection", make=selection_section),
    SectionKind(id="graphs", title="Graphs", make=graph_section),
    SectionKind(id="order", title="Execution order", make=order_section),
    SectionKind(id="memory", title="Memory", make=memory_section),
    SectionKind(id="bench", title="Measurements", make=bench_section),
    SectionKind(id="integrity", title="Digests and contexts", make=integrity_section),
    SectionKind(id="findings", title="Findings", make=finding_section),
)


def report_html(subject: ReportSubject) -> str:
    """Return the whole page of a package as text."""
    made = [(kind, kind.make(subject)) for kind in SECTIONS]
    styles, scripts = (stylesheet(), *_static(_STYLES)), _static(_SCRIPTS)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            subject=subject,
            sections=made,
            ortpkg_version=__version__,
            content_security_policy=_content_security_policy(styles, scripts),
            styles=styles,
            scripts=scripts,
        )
    )


@cache
def _environment() -> Environment:
    from jinja2 import (  # only for who makes a report
        Environment,
        FileSystemLoader,
        StrictUndefined,
    )

    return Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _shown(value: Any) -> Any:
    """Return a value for a template: our markup unchanged, other texts made harmless and cut.

    Control characters, which could mislead a reader, are made visible.
    """
    from markupsafe import Markup  # with jinja2

    if isinstance(value, str) and not isinstance(value, Markup):
        return shortened(visible(value), _LONGEST_TEXT)
    return value


def _static(names: Sequence[str]) -> tuple[str, ...]:
    return tuple((_FOLDER / "static" / name).read_text(encoding="utf-8") for name in names)


def _content_security_policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src {' '.join(map(_source_of, styles))}",
            f"script-src {' '.join(map(_source_of, scripts))}",
            "worker-src blob:",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _source_of(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
