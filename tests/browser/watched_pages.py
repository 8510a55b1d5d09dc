"""Opens a report as its reader does, from a file, and writes down all that it does beside that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

#: Of addresses that lead nowhere but into the page itself.
_WITHIN = ("blob:", "data:")


@dataclass(eq=False)
class WatchedPages:
    """Pages of one test, and what none of them may do.

    Attributes:
        browser: that shows them.
        folder: where texts become files.
        provoked: whether the test itself tries what the page's policy forbids; then the browser may
            say so, and nothing but what it stopped may be asked for.
        complaints: what happened that must not.
    """

    browser: Browser
    folder: Path
    provoked: bool = False
    complaints: list[str] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    def __call__(
        self,
        html: str | Path,
        *,
        width: int = 1200,
        height: int = 900,
        dark: bool = False,
        javascript: bool = True,
        reduced_motion: bool = False,
        touch: bool = False,
    ) -> Page:
        """Opens a page of its own, without anything that another one left, and loads it whole.

        Args:
            html: the page's text, or its file.
            width, height: of the window, in CSS pixels.
            dark: whether the reader's system asks for dark colours.
            javascript: whether scripts run.
            reduced_motion: whether the reader's system asks for no animation.
            touch: whether fingers point, and nothing hovers.
        """
        path = html if isinstance(html, Path) else self._saved(html)
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            java_script_enabled=javascript,
            reduced_motion="reduce" if reduced_motion else "no-preference",
            has_touch=touch,
        )
        page = context.new_page()
        self._watch(page, path.as_uri())
        page.goto(path.as_uri())
        return page

    def verify(self) -> None:
        """Fails where a page asked for anything, said anything, or opened anything."""
        assert self.complaints == []

    def close(self) -> None:
        """Ends all pages."""
        for context in self.browser.contexts:
            context.close()

    def _saved(self, html: str) -> Path:
        path = self.folder / f"a report {next(self._numbers)}.html"
        path.write_text(html, encoding="utf-8")
        return path

    def _watch(self, page: Page, address: str) -> None:
        def on_request(request: Any) -> None:
            if request.url.partition("#")[0] != address and not request.url.startswith(_WITHIN):
                self.complaints.append(f"request of {request.url[:200]}")

        def on_failure(request: Any) -> None:
            if self.provoked and request.failure == "csp":
                self.complaints.remove(f"request of {request.url[:200]}")

        def on_message(message: Any) -> None:
            if not self.provoked or "Content Security Policy" not in message.text:
                self.complaints.append(f"console {message.type}: {message.text[:400]}")

        def on_dialog(dialog: Any) -> None:
            self.complaints.append(f"{dialog.type} dialog: {dialog.message[:200]}")
            dialog.dismiss()

        page.context.on("request", on_request)
        page.context.on("requestfailed", on_failure)
        page.context.on("page", lambda other: self.complaints.append(f"window of {other.url}"))
        page.on("console", on_message)
        page.on("dialog", on_dialog)
        page.on("pageerror", lambda error: self.complaints.append(f"error of a script: {error}"))
        page.on("crash", lambda _: self.complaints.append("the page crashed"))
        page.on("websocket", lambda socket: self.complaints.append(f"socket to {socket.url}"))
        page.on("download", lambda file: self.complaints.append(f"download of {file.url}"))
