"""Output of ``ortpkg batch``: progress on a terminal, events for programs, a summary for both."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ortpkg.cli.rendering import (
    JSON_SCHEMA_VERSION,
    Output,
    duration_text,
    is_coloured,
    is_quiet,
    plain,
)
from ortpkg.cli.table_layout import Column
from ortpkg.scale.batches.batch_job import BatchJob
from ortpkg.scale.batches.batch_progress import PartDone, Tally
from ortpkg.scale.batches.node_trial import NodeTrial

if TYPE_CHECKING:
    from rich.progress import Progress as Bars


class BatchOutput:
    """Output of one batch.

    With ``--json`` it is one object a line: the job, every part, and the result.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._tally = Tally(row_count=0)

    def note(self, text: str) -> None:
        """Print a note on standard error."""
        self._output.note(text)

    def print_trials(self, trials: Sequence[NodeTrial]) -> None:
        """Print which nodes cannot run the package, and why, and the notes of the others."""
        for trial in trials:
            if trial.problem is not None:
                self._output.warning(f"{trial.node} runs nothing: {trial.problem}")
            for note in trial.notes:
                self._output.warning(f"{trial.node}: {note}")

    def begin(self, job: BatchJob) -> None:
        """Print what there is to do."""
        before = sum(part.count for part in job.parts if part.number in job.written)
        self._tally = Tally(row_count=job.row_count, rows_before=before)
        left = f", {before} of them written before" if before else ""
        parts = "1 part" if len(job.parts) == 1 else f"{len(job.parts)} parts"
        size = job.plan.layout.fixed_rows or job.plan.batch_size
        reason = job.plan.layout.single_reason
        since = f", since {reason}" if reason else ""
        self.note(f"{job.row_count} rows in {parts}{left}; {size} a run{since}")
        self._event(
            "begin",
            rows=job.row_count,
            rows_written_before=before,
            parts=len(job.parts),
            batch_size=job.plan.batch_size,
        )

    @contextmanager
    def progress(self, job: BatchJob) -> Iterator[Callable[[PartDone], None]]:
        """Yield a function to call with every part that is written."""
        with _bars(job, self._tally.rows_before, shows=not self._output.is_json) as draw:

            def advance(done: PartDone) -> None:
                before = len(self._tally.notes)
                self._tally.add(done)
                for note in self._tally.notes[before:]:
                    self._output.warning(note)
                self._event("part", **_part_json(done), **self._rate())
                draw(self._tally)

            yield advance

    def _rate(self) -> dict[str, Any]:
        return {
            "rows_done": self._tally.rows_before + self._tally.rows + self._tally.errors,
            "rows_per_s": round(self._tally.rate_per_s, 3),
            "remaining_s": _rounded(self._tally.remaining_s),
            "workers": self._tally.workers,
        }

    def finish(self, job: BatchJob, errors: Path | None) -> None:
        """Print which node ran what, and why, and the result."""
        failed = sum(1 for _ in job.folder.errors(job.parts))
        nodes = self._tally.nodes()
        self._event(
            "end",
            rows=job.row_count - failed,
            failed_rows=failed,
            elapsed_s=round(self._tally.elapsed_s, 3),
            nodes=[asdict(item) for item in nodes],
            notes=self._tally.notes,
        )
        if self._output.is_json:
            return
        if nodes:
            self._output.table(
                [
                    Column("node"),
                    Column("variant"),
                    Column("workers", is_numeric=True),
                    Column("rows", is_numeric=True),
                    Column("why", wraps=24),
                ],
                [
                    (node.node, item.text, node.workers, node.rows, item.reason)
                    for node in nodes
                    for item in node.variants
                ],
            )
        listed = f", {failed} failed (see {errors})" if failed else ""
        rate = f" at {self._tally.rate_per_s:.0f} rows/s" if nodes else ""
        self.note(
            f"{job.row_count - failed} rows in {job.folder.root}{listed};"
            f" {duration_text(self._tally.elapsed_s)}{rate}"
        )

    def _event(self, event: str, **content: Any) -> None:
        if self._output.is_json:
            head = {"schema_version": JSON_SCHEMA_VERSION, "kind": "batch", "event": event}
            self._output.line(json.dumps({**head, **content}))
            sys.stdout.flush()


def _part_json(done: PartDone) -> dict[str, Any]:
    return {
        "part": done.part,
        "rows": done.rows,
        "failed_rows": done.errors,
        "worker": done.worker,
        "node": done.node,
        "variants": {variant.component: variant.text for variant in done.variants},
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)


@contextmanager
def _bars(job: BatchJob, before: int, *, shows: bool) -> Iterator[Callable[[Tally], None]]:
    """Yield a function that draws a progress bar of rows on standard error, if it is a terminal."""
    if not shows or is_quiet() or not sys.stderr.isatty() or os.environ.get("CI"):
        yield lambda _tally: None
        return
    from rich.console import Console  # loaded only where a bar may be drawn
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("rows"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}", markup=False),
        TimeRemainingColumn(),
    )
    colors: Literal["auto"] | None = "auto" if is_coloured(sys.stderr) else None
    console = Console(stderr=True, color_system=colors)
    with Bars(*columns, console=console, transient=True, redirect_stdout=False) as bars:
        task = bars.add_task("waiting for workers", total=job.row_count, completed=before)
        yield lambda tally: _draw(bars, task, tally)


def _draw(bars: Bars, task: Any, tally: Tally) -> None:
    variants = {variant.variant for node in tally.nodes() for variant in node.variants}
    bars.update(
        task,
        completed=tally.rows_before + tally.rows + tally.errors,
        description=plain(
            f"{tally.rate_per_s:.0f}/s, {tally.workers} workers: {', '.join(sorted(variants))}"
        ),
    )
