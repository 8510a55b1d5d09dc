"""A report's page as a reader of HTML sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

#: Elements without an end.
_VOID = {"meta", "br", "hr", "img", "input", "link", "source", "wbr", "col", "area", "base"}
#: SVG elements that the pictures close by themselves.
_SHAPES = {"rect", "line", "path", "circle", "polyline", "polygon", "use", "ellipse"}


@dataclass
class Page(HTMLParser):
    """What stands in a page.

    Attributes:
        elements: (tag, attributes) in order.
        texts: (tag around it, text), blanks left out.
        problems: elements that end where they should not.
    """

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    open_elements: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open_elements.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _SHAPES | _VOID:
            self.problems.append(f"<{tag}/>")

    def handle_endtag(self, tag: str) -> None:
        if not self.open_elements or self.open_elements.pop() != tag:
            self.problems.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open_elements[-1] if self.open_elements else "", data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of each element of that tag."""
        return [attributes for each, attributes in self.elements if each == tag]

    def texts_in(self, tag: str) -> list[str]:
        """The texts that stand right in an element of that tag."""
        return [text for around, text in self.texts if around == tag]

    @property
    def words(self) -> str:
        """All that is shown, in one text."""
        return " ".join(
            " ".join(text.split()) for tag, text in self.texts if tag not in {"script", "style"}
        )


def page_of(html: str) -> Page:
    """The page, read; its elements are closed as they were opened."""
    page = Page()
    page.feed(html)
    page.close()
    assert page.problems == []
    assert page.open_elements == []
    return page
