"""``ortpkg batch``: runs rows of files through a package, on one machine or many, into files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

from ortpkg.cli.batch_options import (
    DEFAULT_PART_ROWS,
    BatchAxisOption,
    BatchMemoryLimitOption,
    BatchSizeOption,
    BatchTimeoutOption,
    ErrorsOption,
    FolderOption,
    FormatOption,
    InProcessOption,
    KeepOption,
    MapOption,
    PartRowsOption,
    RayOption,
    ReferenceArgument,
    ResumeOption,
    RowsOption,
    SameResultsOption,
    WorkersOption,
    WorkerThreadsOption,
)
from ortpkg.cli.batch_output import BatchOutput
from ortpkg.cli.choice_options import VariantChoice
from ortpkg.cli.early_checks import verify_package_eps
from ortpkg.cli.given_inputs import ResizeOption
from ortpkg.cli.parameters import ProviderOptionsOption, TrustOption
from ortpkg.cli.progress import elapsed
from ortpkg.cli.rendering import Output
from ortpkg.cli.run_options import AllowFallbackOption, CanaryOption
from ortpkg.foundations.errors import ExitCode, UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.scale.batches.batch_job import BatchWishes, prepared_job, verify_wishes
from ortpkg.scale.batches.column_mapping import parse_map
from ortpkg.scale.batches.engines import BatchEngine, WorkerPlan
from ortpkg.scale.batches.error_list import ErrorList
from ortpkg.scale.batches.input_files import FORMAT_OF_WORD, RowFormat
from ortpkg.scale.batches.local_run import local_engine
from ortpkg.scale.batches.model_layout import parse_axes
from ortpkg.scale.batches.node_trial import usable_trials
from ortpkg.scale.batches.package_runner import PackageUse


def command(
    output: Output,
    package: ReferenceArgument,
    inputs: RowsOption,
    folder: FolderOption,
    row_format: FormatOption = None,
    columns: MapOption = None,
    keep: KeepOption = None,
    batch_axis: BatchAxisOption = None,
    errors: ErrorsOption = None,
    resume: ResumeOption = False,
    batch_size: BatchSizeOption = None,
    part_rows: PartRowsOption = DEFAULT_PART_ROWS,
    resize: ResizeOption = False,
    ray: RayOption = None,
    workers: WorkersOption = None,
    threads: WorkerThreadsOption = 1,
    in_process: InProcessOption = False,
    same_results: SameResultsOption = None,
    *,
    choice: VariantChoice,
    provider_option: ProviderOptionsOption = None,
    timeout: BatchTimeoutOption = None,
    memory_limit: BatchMemoryLimitOption = None,
    canary: CanaryOption = False,
    allow_fallback: AllowFallbackOption = False,
    trust: TrustOption = False,
) -> int:
    """Run every row of files through a package, and write what comes out to a folder.

    Rows are read, run and written in parts, by workers of which each chooses its variant on its
    own machine. A part is a file; it is there whole or not at all, once, whatever is killed on the
    way, and --resume goes on after that. Outputs come with the number of their row.
    """
    if in_process and (ray is not None or workers not in {None, 1}):
        raise UsageError("--in-process runs without Ray: it has no --ray and no --workers")
    verify_package_eps([choice.ep], Path(package))
    wishes = BatchWishes(
        inputs=tuple(inputs),
        output=folder.absolute(),
        format=_format(row_format),
        columns=parse_map(columns or ()),
        kept_columns=tuple(keep or ()),
        axes=parse_axes(batch_axis or ()),
        batch_size=batch_size,
        part_rows=part_rows,
        collects_errors=errors is not None,
        resize=resize,
        same_results=same_results,
        resume=resume,
    )
    use = PackageUse(
        reference=_absolute(package),
        component=choice.component,
        wishes=choice.wishes(provider_option),
        threads=threads,
        trust=trust,
        canary=canary,
        allow_fallback=allow_fallback,
        timeout_s=timeout,
        memory_limit_nbytes=memory_limit,
    )
    engine = (
        _local if in_process else partial(_on_ray, ray, WorkerPlan(count=workers, cpus=threads))
    )
    awaited = _waiting_text(ray, in_process=in_process)
    return _Batch(output, wishes, use, errors, awaited).run(engine)


#: Starts the engine of a batch for a package.
_StartEngine = Callable[[PackageUse, float | None], AbstractContextManager[BatchEngine]]


def _local(use: PackageUse, tolerance: float | None) -> AbstractContextManager[BatchEngine]:
    return local_engine(use, tolerance)


def _on_ray(
    address: str | None, workers: WorkerPlan, use: PackageUse, tolerance: float | None
) -> AbstractContextManager[BatchEngine]:
    from ortpkg.scale.ray.batch_run import ray_engine  # only where it is asked for

    return ray_engine(use, address, workers, tolerance)


class _Batch:
    """One ``ortpkg batch``: its options for rows and the package, and the list of failed rows."""

    def __init__(
        self,
        output: Output,
        wishes: BatchWishes,
        use: PackageUse,
        errors: Path | None,
        awaited: str,
    ) -> None:
        self._shown = BatchOutput(output)
        self._wishes = wishes
        self._use = use
        self._errors = errors
        self._waiting_text = awaited

    def run(self, start: _StartEngine) -> int:
        """Start the workers, run the job, and return the exit code."""
        wishes = self._wishes
        source = verify_wishes(wishes)
        listed = (
            None
            if self._errors is None
            else ErrorList(self._errors, wishes.output, resume=wishes.resume)
        )
        with ExitStack() as stack:
            with elapsed(self._waiting_text):
                engine = stack.enter_context(start(self._use, wishes.same_results))
                trials = engine.trials()
            self._shown.print_trials(trials)
            job = stack.enter_context(
                prepared_job(source, wishes, self._use, usable_trials(trials), engine.measure)
            )
            if listed is not None:
                listed.verify_is_own(job.folder, job.parts)
            self._shown.begin(job)
            with self._shown.progress(job) as progress:
                for done in engine.run(job):
                    progress(done)
            if listed is not None:
                listed.write(job.folder, job.parts)
        self._shown.finish(job, self._errors)
        return ExitCode.DONE


def _waiting_text(address: str | None, *, in_process: bool) -> str:
    """Return what the command waits for before the first row."""
    if in_process:
        return "opening the package"
    if address is None:
        return "starting a Ray cluster on this machine (--in-process needs none)"
    return f"joining the Ray cluster at {quoted(address)}, and trying the package on every node"


def _absolute(reference: str) -> str:
    """Return the absolute path of an existing path, and anything else unchanged."""
    path = Path(reference)
    return str(path.absolute()) if path.exists() else reference


def _format(word: str | None) -> RowFormat | None:
    if word is None:
        return None
    if word not in FORMAT_OF_WORD:
        raise UsageError(
            f"--format {quoted(word)}: it is one of {', '.join(FORMAT_OF_WORD)}"
            f"{did_you_mean(word, FORMAT_OF_WORD)}"
        )
    return FORMAT_OF_WORD[word]
