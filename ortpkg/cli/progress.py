"""A progress bar for long copies, on a terminal only."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int], None]

#: Copies smaller than this are over before anyone could read a bar.
_LEAST_SHOWN_NBYTES = 32 << 20


@contextmanager
def copy_progress() -> Iterator[Progress | None]:
    """Yields a callback (file, bytes done, bytes in all) that draws a bar on standard error.

    Yields None where standard error is no terminal, or under CI: programs and logs do not want bars.
    """
    if not sys.stderr.isatty() or os.environ.get("CI"):
        yield None
        return
    from rich.console import Console  # loaded only where a bar may be drawn
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks = {}

        def advance(file: str, done: int, total: int) -> None:
            if total < _LEAST_SHOWN_NBYTES:
                return
            if file not in tasks:
                tasks[file] = bars.add_task(file.encode("unicode_escape").decode("ascii"), total=total)
            bars.update(tasks[file], completed=done)

        yield advance
