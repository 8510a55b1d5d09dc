"""Preparation of a batch from its options: input, parts, columns and output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.scale.batches.batch_folder import BatchFolder, inputs_json, read_job, verify_is_free
from ortpkg.scale.batches.batch_size import DEFAULT_BATCH_SIZE, TRIED_SIZES, best_batch_size
from ortpkg.scale.batches.column_mapping import ColumnMap, column_map
from ortpkg.scale.batches.csv_rows import csv_header
from ortpkg.scale.batches.image_rows import IMAGE, PATH, PictureInput
from ortpkg.scale.batches.input_files import InputFiles, RowFormat, find_input
from ortpkg.scale.batches.model_layout import ModelLayout, StatedAxes, model_layout
from ortpkg.scale.batches.node_trial import NodeTrial
from ortpkg.scale.batches.npy_rows import DATA
from ortpkg.scale.batches.output_parts import ROW_ID
from ortpkg.scale.batches.package_runner import ModelFacts, PackageUse
from ortpkg.scale.batches.parquet_rows import parquet_columns
from ortpkg.scale.batches.part_planning import PartLimits, plan_parts
from ortpkg.scale.batches.part_reading import Reading
from ortpkg.scale.batches.part_run import RunPlan
from ortpkg.scale.batches.parts import MOST_ROWS, Part
from ortpkg.scale.batches.rows import Rows, take_rows

JOB_SCHEMA_VERSION = "1.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWishes:
    """Options of a batch that concern its rows.

    Attributes:
        inputs: Files and folders.
        output: Folder to write.
        format: Format of the output; None for that of the input.
        columns: Columns by input of the model, as far as the caller says.
        kept_columns: Columns of the input to copy to the output.
        axes: True by output if its first dimension is rows, as far as the caller says.
        batch_size: Rows of one run; None for the best.
        part_rows: Most rows of a part.
        collects_errors: True to leave out and list failed rows; otherwise the first ends the batch.
        resize: True to resample pictures to the input's size.
        same_results: Most that the recorded errors of variants may differ; None if they need not be
            known.
        resume: True to continue the job in the output.
    """

    inputs: tuple[Path, ...]
    output: Path
    format: RowFormat | None = None
    columns: ColumnMap
    kept_columns: tuple[str, ...] = ()
    axes: StatedAxes = EMPTY
    batch_size: int | None = None
    part_rows: int = MOST_ROWS
    collects_errors: bool = False
    resize: bool = False
    same_results: float | None = None
    resume: bool = False

    def as_json(self, source: InputFiles) -> dict[str, Any]:
        """Return the options that affect the results, for a job."""
        return {
            "inputs": inputs_json(source.files),
            "part_rows": self.part_rows,
            "format": (self.format or source.format).word,
            "axes": dict(self.axes) or None,
            "has_errors": self.collects_errors,
            "resizes": self.resize,
            "same_results": self.same_results,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """Work of a batch.

    Attributes:
        parts: All parts.
        written: Numbers of the parts that exist already.
        reading: How to read parts.
        plan: How to run them.
        folder: Where to write them.
    """

    parts: tuple[Part, ...]
    written: frozenset[int]
    reading: Reading
    plan: RunPlan
    folder: BatchFolder

    @property
    def to_do(self) -> tuple[Part, ...]:
        """Parts that do not exist yet."""
        return tuple(part for part in self.parts if part.number not in self.written)

    @property
    def row_count(self) -> int:
        """Number of rows of the input."""
        return self.parts[-1].first_row + self.parts[-1].count if self.parts else 0


def verify_wishes(wishes: BatchWishes) -> InputFiles:
    """Return the input files after all checks that need no package.

    Raises:
        UsageError: A file or the output does not fit.
    """
    source = find_input(wishes.inputs)
    if wishes.resume:
        read_job(wishes.output)
    else:
        verify_is_free(wishes.output)
    output = wishes.output.resolve()
    for file in source.files:
        if file.resolve().is_relative_to(output):
            raise UsageError(
                f"--output {quoted(wishes.output)} holds {quoted(file)}, which is read: name"
                " another folder"
            )
    return source


#: Measures a run on rows of the job; returns seconds by number of rows.
Measure = Callable[[Rows, RunPlan], Mapping[int, float]]


@contextmanager
def prepared_job(
    source: InputFiles,
    wishes: BatchWishes,
    use: PackageUse,
    trials: Sequence[NodeTrial],
    measure: Measure | None = None,
) -> Iterator[BatchJob]:
    """Plan the parts of the input and open the output folder, locked for this job.

    The batch size is that of the options or of the resumed job. Otherwise it is the best by what
    ``ortpkg bench`` recorded, or by a measurement on the first rows.

    Args:
        source: Result of :func:`verify_wishes`.
        wishes: Options for rows.
        use: Options for the package.
        trials: Trials of the nodes that can run it.
        measure: Measures a run.

    Raises:
        UsageError: The options do not fit together.
    """
    facts = trials[0].facts
    assert facts is not None
    columns = _columns(source, wishes, facts)
    kept_columns = (*((PATH,) if source.format is RowFormat.IMAGES else ()), *wishes.kept_columns)
    folder = BatchFolder(wishes.output, wishes.format or source.format)
    parts = plan_parts(source, PartLimits(most_rows=wishes.part_rows))
    reading = _reading(source, wishes, facts, columns)
    job: Mapping[str, Any] = {
        "schema_version": JOB_SCHEMA_VERSION,
        "kind": "batch",
        "package": dict(facts.identity),
        "columns": {name: list(column_names) for name, column_names in columns.items()},
        "kept": list(kept_columns),
        "variants": _variants_json(trials),
        **use.as_json(),
        **wishes.as_json(source),
    }
    with ExitStack() as stack:
        if wishes.resume:
            job = stack.enter_context(folder.resumed_job(job))
            _verify_resumable(job, wishes, trials)
        size = wishes.batch_size or job.get("batch_size")
        plan = _plan(wishes, facts, columns, kept_columns, size)
        if size is None:
            times = trials[0].batch_times or _measured(parts, reading, plan, measure)
            plan = replace(plan, batch_size=best_batch_size(times, wishes.part_rows))
        if not wishes.resume:
            stack.enter_context(folder.new_job({**job, "batch_size": plan.batch_size}))
        yield BatchJob(
            parts=parts,
            written=frozenset(folder.written(parts)) if wishes.resume else frozenset(),
            reading=reading,
            plan=plan,
            folder=folder,
        )


def _plan(
    wishes: BatchWishes,
    facts: ModelFacts,
    columns: ColumnMap,
    kept_columns: tuple[str, ...],
    size: int | None,
) -> RunPlan:
    layout = model_layout(facts.inputs, facts.outputs, size, axes=facts.axes, stated=wishes.axes)
    _verify_kept(layout, kept_columns)
    return RunPlan(
        layout=layout,
        columns=columns,
        batch_size=size or DEFAULT_BATCH_SIZE,
        kept_columns=kept_columns,
        stops=not wishes.collects_errors,
    )


def _measured(
    parts: Sequence[Part], reading: Reading, plan: RunPlan, measure: Measure | None
) -> Mapping[int, float]:
    if measure is None or plan.layout.fixed_rows is not None or not parts:
        return {}
    _, rows = next(iter(reading.rows_of(parts[:1])))
    few = np.arange(min(len(rows.row_ids), max(TRIED_SIZES)))
    columns = {name: take_rows(column, few) for name, column in rows.columns.items()}
    return measure(Rows(row_ids=rows.row_ids[few], columns=columns), plan)


def _variants_json(trials: Sequence[NodeTrial]) -> list[list[str]]:
    return sorted(
        {variant.key: list(variant.key) for trial in trials for variant in trial.chosen}.values()
    )


def _verify_resumable(
    job: Mapping[str, Any], wishes: BatchWishes, trials: Sequence[NodeTrial]
) -> None:
    size = job.get("batch_size")
    if not isinstance(size, int) or size < 1:
        raise UsageError(f"--resume: the job in {quoted(wishes.output)} has no batch size")
    if wishes.batch_size not in {None, size}:
        raise UsageError(
            f"--resume: the batch that is in {quoted(wishes.output)} has --batch-size {size}, which"
            " cannot change on the way"
        )
    before = job.get("variants", [])
    for trial in trials if wishes.same_results is not None else ():
        for variant in trial.chosen:
            if list(variant.key) not in before:
                raise UsageError(
                    f"--same-results: {trial.node} would go on with {variant.text}, which the batch"
                    f" that is in {quoted(wishes.output)} did not begin with: go on where that runs"
                )


def _verify_kept(layout: ModelLayout, kept_columns: Sequence[str]) -> None:
    if ROW_ID in layout.outputs:
        raise UsageError(
            f"the model has an output {quoted(ROW_ID)}, and so is called the column with the number"
            " of each row: it needs another name to be written beside that"
        )
    for name in kept_columns:
        if name in layout.outputs or name == ROW_ID:
            raise UsageError(f"--keep {quoted(name)}: the output has a column of that name already")


def _columns(source: InputFiles, wishes: BatchWishes, facts: ModelFacts) -> ColumnMap:
    names = [declared.name for declared in facts.inputs]
    mapping: ColumnMap = {}
    for file in _with_headers(source):
        available = _columns_of(source.format, file)
        mapping = column_map(names, available, wishes.columns)
        for name in wishes.kept_columns:
            if available is not None and name not in available:
                raise UsageError(
                    f"--keep: {quoted(file)} has no column {quoted(name)}"
                    f"{did_you_mean(name, available)}"
                )
    return mapping


def _with_headers(source: InputFiles) -> Sequence[Path]:
    has_own = source.format in {RowFormat.PARQUET, RowFormat.CSV}
    return source.files if has_own else source.files[:1]


def _columns_of(kind: RowFormat, file: Path) -> list[str] | None:
    if kind is RowFormat.PARQUET:
        return parquet_columns(file)
    if kind is RowFormat.CSV:
        return csv_header(file)
    return {RowFormat.NPY: [DATA], RowFormat.IMAGES: [IMAGE]}.get(kind)


def _reading(
    source: InputFiles, wishes: BatchWishes, facts: ModelFacts, columns: ColumnMap
) -> Reading:
    needed = dict.fromkeys(
        [*(name for item in columns.values() for name in item), *wishes.kept_columns]
    )
    picture = None
    if source.format is RowFormat.IMAGES:
        (declared,) = [item for item in facts.inputs if columns[item.name] == (IMAGE,)]
        picture = PictureInput(
            name=declared.name,
            type=declared.type,
            shape=declared.shape or (),
            value_range=declared.value_range,
            resize=wishes.resize,
        )
    return Reading(format=source.format, columns=tuple(needed), picture=picture)
