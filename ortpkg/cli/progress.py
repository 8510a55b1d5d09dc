"""A progress bar for long copies, on a terminal only."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from ortpkg.cli.rendering import is_coloured, is_quiet, plain

Progress = Callable[[str, int, int], None]

#: Copies smaller than this are over before anyone could read a bar.
_LEAST_SHOWN_NBYTES = 32 << 20


@contextmanager
def copy_progress() -> Iterator[Progress | None]:
    """Yields a callback (file, bytes done, bytes in all) that draws a bar on standard error.

    Yields None where standard error is no terminal, with --quiet, or under CI: programs and logs do
    not want bars.
    """
    if is_quiet() or not sys.stderr.isatty() or os.environ.get("CI"):
        yield None
        return
    from rich.console import Console  # loaded only where a bar may be drawn
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
    with Bars(*columns, console=Console(stderr=True, color_system=colors), transient=True) as bars:
        tasks = {}

        def advance(file: str, done: int, total: int) -> None:
            if total < _LEAST_SHOWN_NBYTES:
                return
            if file not in tasks:
                tasks[file] = bars.add_task(plain(file), total=total)
            bars.update(tasks[file], completed=done)

        yield advance


@contextmanager
def elapsed(what: str) -> Iterator[None]:
    """Shows ``what`` and its time so far, on a terminal only, as :func:`copy_progress`."""
    if is_quiet() or not sys.stderr.isatty() or os.environ.get("CI"):
        yield
        return
    from rich.console import Console  # loaded only where something may be drawn
    from rich.progress import Progress as Bars
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    colors: Literal["auto"] | None = "auto" if is_coloured(sys.stderr) else None
    with Bars(*columns, console=Console(stderr=True, color_system=colors), transient=True) as bars:
        bars.add_task(plain(what), total=None)
        yield
