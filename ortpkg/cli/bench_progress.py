"""Progress of a benchmark: a bar on a terminal, else a line for each child process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ortpkg.cli.rendering import Output

if TYPE_CHECKING:
    from ortpkg.selection.measuring.measured_candidates import OnStep, Step


@contextmanager
def bench_progress(output: Output) -> Iterator[OnStep]:
    """Yield a function that draws a bar on a terminal, or prints a line for each child process.

    Both go to standard error.
    """
    if not sys.stderr.isatty():
        yield lambda step: output.note(_step_text(step)) if step.candidate is not None else None
        return
    from rich.console import Console  # loaded only where a bar is drawn
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bars:
        task = bars.add_task("", total=None)

        def advance(step: Step) -> None:
            text = "" if step.candidate is None else step.candidate.label
            shown = text.encode("unicode_escape").decode("ascii")
            bars.update(task, completed=step.done, total=step.total, description=shown)

        yield advance


def _step_text(step: Step) -> str:
    assert step.candidate is not None
    return f"[{step.done + 1}/{step.total}] round {step.round_number}: {step.candidate.label}"
