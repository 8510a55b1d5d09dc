"""Compiling on this machine, and remembering it: what one compiled oneself needs no trust."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from os import PathLike
from pathlib import Path

from ortpkg.authoring.compile_files import compile_files
from ortpkg.authoring.compile_variants import compile_variants
from ortpkg.authoring.compile_wishes import CompileWishes, check_wishes
from ortpkg.authoring.compiled_joining import CompiledVariant
from ortpkg.errors import TrustRequiredError
from ortpkg.graph.load_control import LoadControl, load_limits
from ortpkg.providers.ep_registry import ep_known_here
from ortpkg.providers.missing_libraries import verify_compiles
from ortpkg.session.compile_models import CompiledModel, CompileRequest
from ortpkg.storage.file_operations import FileOperations
from ortpkg.storage.hashing import Progress
from ortpkg.trust.context_trust import check_source_model, remember_contexts

_log = logging.getLogger(__name__)


def compile_package(
    root: str | PathLike[str],
    wishes: CompileWishes,
    *,
    notify: Callable[[str], None] | None = None,
    progress: Progress | None = None,
    on_commit: Callable[[], None] = lambda: None,
    operations: FileOperations | None = None,
) -> list[CompiledVariant]:
    """Adds compiled variants to a package.

    See :func:`~ortpkg.authoring.compile_variants.compile_variants`.

    UsageError for an execution provider that nobody knows.
    """
    notify = notify or _log.warning
    check_wishes(wishes)
    if wishes.ep:
        ep_known_here(wishes.ep)
        verify_compiles(wishes.ep, wishes.backend)
    made = compile_variants(
        root, wishes, notify=notify, progress=progress, on_commit=on_commit, operations=operations
    )
    _remember((Path(root) / each.folder / str(each.entry.model_file) for each in made), notify)
    return made


def compile_model_files(
    request: CompileRequest,
    *,
    timeout_s: float,
    trust: bool = False,
    overwrite: bool = False,
    notify: Callable[[str], None] | None = None,
    on_commit: Callable[[], None] = lambda: None,
    operations: FileOperations | None = None,
) -> list[CompiledModel]:
    """Compiles model files outside of packages.

    See :func:`~ortpkg.authoring.compile_files.compile_files`.

    Args:
        request: what to compile; all outputs lie in one folder.
        timeout_s: of all together.
        trust: take models that have native contexts already, not made on this machine; what comes
            out of these is not remembered as made here, so it needs trust as they do.
        overwrite: replace context models that are there already.
        notify: is told what the user should know.
        on_commit: called once all is there.
        operations: changes the disk, or rehearses that.

    Raises TrustRequiredError for such a model without ``trust``, UsageError for an execution
    provider that nobody knows, and what compile_files raises.
    """
    notify = notify or _log.warning
    ep_known_here(request.ep)
    verify_compiles(request.ep, request.backend)
    limits = LoadControl(
        memory_limit_nbytes=request.memory_limit_nbytes, timeout_s=timeout_s, what="compiling"
    )
    is_ours = True
    jobs = []
    for job in request.jobs:
        digests: tuple[str, ...] | None = None
        try:
            with load_limits(limits):
                digests = check_source_model(Path(job.model))
        except TrustRequiredError:
            if not trust:
                raise
            is_ours = False
        jobs.append(replace(job, context_digests=digests))
    request = replace(request, jobs=tuple(jobs))
    made = compile_files(
        request,
        timeout_s=timeout_s,
        notify=notify,
        overwrite=overwrite,
        operations=operations,
        on_commit=on_commit,
    )
    if is_ours:
        _remember((each.output for each in made), notify)
    else:
        notify(
            "a model had contexts that were not compiled here: running what came out needs --trust,"
            " as running it"
        )
    return made


def _remember(models: Iterable[Path], notify: Callable[[str], None]) -> None:
    try:
        remember_contexts(models)
    except OSError as error:
        notify(
            f"that this was compiled here cannot be remembered ({error}): running it will need"
            " --trust"
        )
