"""``ortpkg batch``: rows of files through a package and into files, on one machine or many."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

from ortpkg.batches.batch_folder import write_errors
from ortpkg.batches.batch_job import BatchJob, BatchWishes, prepare, verify_wishes
from ortpkg.batches.column_mapping import parse_map
from ortpkg.batches.engines import BatchEngine, Workers
from ortpkg.batches.input_files import FORMAT_OF_WORD, InputFiles, RowFormat
from ortpkg.batches.local_run import local_engine
from ortpkg.batches.node_trial import NodeTrial, usable
from ortpkg.batches.package_runner import PackageUse
from ortpkg.cli.batch_options import (
    DEFAULT_PART_ROWS,
    BatchSizeOption,
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
from ortpkg.cli.parameters import (
    BackendOption,
    ComponentOption,
    DeviceOption,
    EpOption,
    JsonOption,
    PolicyOption,
    ProviderOptionsOption,
    TrustOption,
    VariantOption,
    parse_options,
)
from ortpkg.cli.progress import elapsed
from ortpkg.cli.rendering import Output
from ortpkg.cli.run_options import CanaryOption, ResizeOption
from ortpkg.errors import ExitCode, UsageError, quoted
from ortpkg.names import did_you_mean
from ortpkg.selection.wishes import SelectionWishes


def command(
    package: ReferenceArgument,
    inputs: RowsOption,
    output: FolderOption,
    row_format: FormatOption = None,
    columns: MapOption = None,
    keep: KeepOption = None,
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
    component: ComponentOption = None,
    variant: VariantOption = None,
    device: DeviceOption = None,
    ep: EpOption = None,
    provider_option: ProviderOptionsOption = None,
    policy: PolicyOption = "default",
    backend: BackendOption = "auto",
    canary: CanaryOption = False,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> int:
    """Run every row of files through a package, and write what comes out to a folder.

    Rows are read, run and written in parts, by workers of which each chooses its variant on its
    own machine. A part is a file; it is there whole or not at all, once, whatever is killed on the
    way, and --resume goes on after that. Outputs come with the number of their row.
    """
    if in_process and (ray is not None or workers not in {None, 1}):
        raise UsageError("--in-process runs without Ray: it has no --ray and no --workers")
    wishes = BatchWishes(
        inputs=tuple(inputs),
        output=output.absolute(),
        format=_format(row_format),
        columns=parse_map(columns or ()),
        kept=tuple(keep or ()),
        batch_size=batch_size,
        part_rows=part_rows,
        collects_errors=errors is not None,
        resize=resize,
        resume=resume,
    )
    source = verify_wishes(wishes)
    _verify_errors(errors, resume=resume)
    use = PackageUse(
        reference=_absolute(package),
        component=component,
        wishes=SelectionWishes(
            variant=variant,
            device=device,
            ep=ep,
            backend=backend,
            policy=policy,
            provider_options=parse_options("--provider-option", provider_option),
        ),
        threads=threads,
        trust=trust,
        canary=canary,
    )
    if in_process:
        engine = local_engine(use)
    else:
        from ortpkg.ray.batch_run import ray_engine  # only where it is asked for

        engine = ray_engine(use, ray, Workers(count=workers, cpus=threads), same_results)
    shown = BatchOutput(Output(is_json=as_json))
    job = _run(engine, partial(_job, source, wishes), shown)
    if errors is not None:
        write_errors(errors, job.folder.errors(job.parts))
    job.folder.finish()
    shown.finish(job, errors)
    return ExitCode.DONE


def _run(
    starting: AbstractContextManager[BatchEngine],
    job_of: Callable[[BatchEngine, NodeTrial], BatchJob],
    shown: BatchOutput,
) -> BatchJob:
    """Starts the workers, and has them do the job, which it returns."""
    with ExitStack() as stack:
        with elapsed("starting, and trying the package on every node"):
            engine = stack.enter_context(starting)
            trials = engine.trials()
        shown.tell_trials(trials)
        job = job_of(engine, usable(trials)[0])
        shown.begin(job)
        stack.enter_context(job.folder.held())
        progress = stack.enter_context(shown.progress(job))
        for done in engine.run(job):
            progress(done)
    return job


def _job(
    source: InputFiles, wishes: BatchWishes, engine: BatchEngine, trial: NodeTrial
) -> BatchJob:
    assert trial.facts is not None
    recorded = trial.batch_times or {}
    return prepare(source, wishes, trial.facts, recorded=recorded, measure=engine.measure)


def _absolute(reference: str) -> str:
    """A path as it is found from any folder; anything else as it is."""
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


def _verify_errors(path: Path | None, *, resume: bool) -> None:
    if path is not None and path.exists() and not resume:
        raise UsageError(f"--errors {quoted(path)} exists already: name another file")
    if path is not None and not path.absolute().parent.is_dir():
        raise UsageError(f"--errors {quoted(path)} is in no folder: make that first")
