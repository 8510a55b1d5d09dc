"""Progress bar for long copies, on terminals only."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from ortpkg.cli.rendering import is_coloured, is_quiet, plain

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

Progress = Callable[[str, int, int], None]

#: Smaller copies are finished before anyone could read a bar.
_LEAST_SHOWN_NBYTES = 32 << 20


@contextmanager
def copy_progress() -> Iterator[Progress | None]:
    """Yield a callback (file, bytes done, bytes in all) that draws a bar on standard error.

    It yields None if standard error is not a terminal, with --quiet, or under CI, because programs
    and logs do not want bars.
    """
    if is_quiet() or not sys.stderr.isatty() or os.environ.get("CI"):
        yield None
        return
    bars = _CopyBars()
    try:
        yield bars.advance
    finally:
        bars.end()


class _CopyBars:
    """Bar for each file while files are copied; nothing is drawn between copies.

    So a command's output does not meet a bar, and standard output is never touched.
    """

    def __init__(self) -> None:
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID] = {}

    def advance(self, file: str, done: int, total: int) -> None:
        """Draw that ``done`` bytes of ``file`` are copied."""
        if total < _LEAST_SHOWN_NBYTES:
            return
        if self._bars is None:
            self._bars = _copy_bars()
            self._bars.start()
        if file not in self._tasks:
            self._tasks[file] = self._bars.add_task(plain(file), total=total)
        self._bars.update(self._tasks[file], completed=done)
        if self._bars.finished:
            self.end()

    def end(self) -> None:
        """Remove what was drawn."""
        if self._bars is not None:
            self._bars.stop()
        self._bars = None
        self._tasks.clear()


def _copy_bars() -> Bars:
    from rich.console import Console  # loaded only where a bar is drawn
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    colors: Literal["auto"] | None = "auto" if is_coloured(sys.stderr) else None
    console = Console(stderr=True, color_system=colors)
    return Bars(*columns, console=console, transient=True, redirect_stdout=False)


@contextmanager
def elapsed(what: str) -> Iterator[None]:
    """Show ``what`` and the time so far, on terminals only, like :func:`copy_progress`."""
    if is_quiet() or not sys.stderr.isatty() or os.environ.get("CI"):
        yield
        return
    from rich.console import Console  # loaded only where something may be drawn
    from rich.progress import Progress as Bars
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    colors: Literal["auto"] | None = "auto" if is_coloured(sys.stderr) else None
    console = Console(stderr=True, color_system=colors)
    with Bars(*columns, console=console, transient=True, redirect_stdout=False) as bars:
        bars.add_task(plain(what), total=None)
        yield
