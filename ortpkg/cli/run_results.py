"""Output of ``ortpkg run``: outputs, and reports of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortpkg.cli.rendering import Output, duration_text
from ortpkg.cli.table_layout import Column

if TYPE_CHECKING:
    from ortpkg.api.samples.sample_runner import SampleReport
    from ortpkg.package.formats.samples import SampleSet, Tolerance

#: Most samples to show; wrong ones are always shown.
MOST_SHOWN = 10


def print_report(report: SampleReport, output: Output) -> None:
    """Print a sample set's table, with its first samples and all wrong ones, and a summary."""
    rows = []
    skipped = 0
    for result in report.results:
        if (
            result.index >= MOST_SHOWN
            and result.is_right is not False
            and result.is_expected is not False
        ):
            skipped += 1
            continue
        mark = {True: "right", False: "WRONG", None: ""}[result.is_right]
        expected = {True: "yes", False: "NO", None: ""}[result.is_expected]
        label = "" if result.label is None else result.label
        rows.append(
            (result.index, result.shown, label, mark, expected, duration_text(result.latency_s))
        )
    columns = [
        Column("sample", is_numeric=True),
        Column(_shown_title(report.sample_set), wraps=16),
        Column("true", wraps=16),
        Column(""),
        Column("as expected"),
        Column("latency", is_numeric=True, drops=1),
    ]
    # Columns may be empty: only classifiers have classes, and not every sample has expected
    # outputs.
    used_columns = [
        position for position in range(len(columns)) if any(row[position] != "" for row in rows)
    ]
    output.table(
        [columns[position] for position in used_columns],
        [tuple(row[position] for position in used_columns) for row in rows],
        title=f"samples {report.sample_set.name}",
    )
    if skipped:
        output.line(f"... and {skipped} more, right and as expected")
    output.line(_summary(report), hang="")


def _shown_title(sample_set: SampleSet) -> str:
    """Heading of the column of results: "predicted" for classes, else the output's name."""
    from ortpkg.package.formats.samples import DisplayKind  # a run of samples has loaded it

    display = sample_set.display
    if display is None or display.kind is DisplayKind.TENSOR:
        return "output" if display is None else display.output
    return "predicted"


def _summary(report: SampleReport) -> str:
    parts = []
    if report.labelled:
        parts.append(
            f"{report.right} of {report.labelled} right"
            f" ({100 * report.right / report.labelled:.1f} %)"
        )
    if report.matches is not None:
        bounds = ", ".join(
            f"{name} off by at most {report.errors[name]:.2g} (allowed {_allowed(allowed)})"
            for name, allowed in report.tolerances.items()
            if report.task is None or name != report.task.task.output
        )
        if report.task is not None:
            bounds = ", ".join(filter(None, (report.task.text, bounds)))
        bounds = "; ".join((bounds, *report.faults))
        word = (
            "outputs match what the package expects"
            if report.matches
            else "OUTPUTS DO NOT MATCH what the package expects"
        )
        parts.append(f"{word}: {bounds}")
    parts.append(f"median {duration_text(report.median_latency_s)}")
    return "; ".join(parts)


def _allowed(tolerance: Tolerance) -> str:
    """Return a tolerance as text, its parts joined as a sum."""
    text = f"{tolerance.absolute:g} + {tolerance.relative:g} of it"
    if tolerance.of_largest:
        text += f" + {tolerance.of_largest:g} of the largest"
    return text if tolerance.cosine is None else f"{text}, cosine {tolerance.cosine:g}"


def report_json(report: SampleReport) -> dict[str, Any]:
    """Return a sample set's report for ``ortpkg run --json``."""
    return {
        "name": report.sample_set.name,
        "count": len(report.results),
        "labelled": report.labelled,
        "right": report.right,
        "matches": report.matches,
        "largest_absolute_error": dict(report.errors),
        "faults": list(report.faults),
        "task": None
        if report.task is None
        else {
            "output": report.task.task.output,
            "same": report.task.task.kind.value,
            "wrong": report.task.wrong,
            "count": len(report.task.differs),
            "error_rate": report.task.task.error_rate,
        },
        "median_latency_s": report.median_latency_s,
        "results": [
            {
                "index": result.index,
                "predicted": result.shown,
                "true": result.label,
                "as_expected": result.is_expected,
                "latency_s": result.latency_s,
            }
            for result in report.results
        ],
    }


def output_cells(value: Any) -> tuple[str, str, str]:
    """Return the cells for type, shape and values of an output."""
    description = value_json(value)
    return description["type"], str(description["shape"]), description["preview"]


def value_json(value: Any) -> dict[str, Any]:
    """Return type, shape and the first few elements of an output, small whatever its size."""
    import numpy as np  # a session has loaded it

    if not isinstance(value, np.ndarray):
        return {"type": type(value).__name__, "shape": None, "preview": repr(value)[:80]}
    flat = value.reshape(-1)[:6]
    shown = ", ".join(
        f"{element:.5g}" if value.dtype.kind in "fc" else str(element) for element in flat
    )
    more = ", ..." if value.size > flat.size else ""
    return {"type": str(value.dtype), "shape": list(value.shape), "preview": f"[{shown}{more}]"}
