"""Compiling on this machine, and remembering that it happened here: what one compiled oneself needs no trust."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path

from ortpkg.api.context_trust import remember_contexts
from ortpkg.authoring.compile_variants import CompiledVariant, CompileWishes, compile_variants
from ortpkg.package.hashing import Progress
from ortpkg.session.compile_models import CompiledModel, CompileRequest, compile_models

_log = logging.getLogger(__name__)


def compile_package(
    root: str | PathLike[str],
    wishes: CompileWishes,
    *,
    notify: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> list[CompiledVariant]:
    """Adds compiled variants to a package; see :func:`~ortpkg.authoring.compile_variants.compile_variants`."""
    notify = notify or _log.warning
    made = compile_variants(root, wishes, notify=notify, progress=progress)
    _remember((Path(root) / each.folder / str(each.entry.model_file) for each in made), notify)
    return made


def compile_model_files(
    request: CompileRequest, *, timeout_s: float, notify: Callable[[str], None] | None = None
) -> list[CompiledModel]:
    """Compiles model files outside of packages; see :func:`~ortpkg.session.compile_models.compile_models`."""
    made = compile_models(request, timeout_s=timeout_s)
    _remember((each.output for each in made), notify or _log.warning)
    return made


def _remember(models: Iterable[Path], notify: Callable[[str], None]) -> None:
    try:
        remember_contexts(models)
    except OSError as error:
        notify(f"that this was compiled here cannot be remembered ({error}): running it will need --trust")
