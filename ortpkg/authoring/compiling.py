"""Compile on this machine, and remember the results: contexts compiled here need no trust."""

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
from ortpkg.foundations.errors import TrustRequiredError
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.hashing import Progress
from ortpkg.graph.load_control import LoadControl, load_limits
from ortpkg.runtime.providers.ep_registry import ep_known_here
from ortpkg.runtime.providers.missing_libraries import verify_compiles
from ortpkg.runtime.session.compile_models import CompiledModel, CompileRequest
from ortpkg.selection.contexts.context_trust import check_source_model, remember_contexts

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
    """Compile variants and add them to a package.

    See :func:`~ortpkg.authoring.compile_variants.compile_variants`.

    Raises:
        UsageError: the execution provider is unknown.
    """
    notify = notify or _log.warning
    check_wishes(wishes)
    if wishes.ep:
        ep_known_here(wishes.ep)
        verify_compiles(wishes.ep, wishes.backend)
    made = compile_variants(
        root, wishes, notify=notify, progress=progress, on_commit=on_commit, operations=operations
    )
    _remember(
        (Path(root) / variant.folder / str(variant.entry.model_file) for variant in made), notify
    )
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
    """Compile model files outside of packages.

    See :func:`~ortpkg.authoring.compile_files.compile_files`.

    Args:
        request: what to compile; all outputs lie in one folder.
        timeout_s: of all together.
        trust: accept models with native contexts that were not made on this machine; the results
            then need trust, too.
        overwrite: replace existing context models.
        notify: called with messages for the user.
        on_commit: called once all files are in place.
        operations: change the disk, or rehearse that.

    Raises:
        TrustRequiredError: a model has such contexts, and ``trust`` is False.
        UsageError: the execution provider is unknown.
        AuthoringError, CompileError: as compile_files.
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
        _remember((model.output for model in made), notify)
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
