"""Compile ONNX files in any folder of the user into context models (``ortpkg compile-models``).

A child process compiles into a staging folder inside that folder; then the context models and
everything they need are moved into place. If it ends before, the folder is as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ortpkg.authoring.compile_folder import compile_folder
from ortpkg.authoring.model_facts import read_model_facts
from ortpkg.authoring.sharing.contents import have_same_bytes
from ortpkg.foundations.errors import AuthoringError, OrtpkgError, UsageError, quoted
from ortpkg.foundations.storage.context_file_mark import is_context_file
from ortpkg.foundations.storage.file_operations import FileOperations
from ortpkg.foundations.storage.planned_files import PlannedFiles
from ortpkg.package.changes.added_files import FileChange, leftovers, publish, staging_folder
from ortpkg.runtime.ep_context.ep_context_options import CONTEXT_EXTERNAL_INITIALIZERS
from ortpkg.runtime.session.compile_models import (
    CompiledModel,
    CompileRequest,
    check_outputs_differ,
    compile_models,
)

_MODEL_SUFFIX = ".onnx"
_CONTEXT_SUFFIX = "_ctx.onnx"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Neighbours:
    """ONNX files of a folder, by name: their compiled contexts, and the files that each needs."""

    contexts: Mapping[str, frozenset[str]]
    needs: Mapping[str, frozenset[str]]

    def needing(self, file: str) -> list[str]:
        """Return the models that need the file."""
        return [name for name, files in self.needs.items() if file in files]


def compile_files(
    request: CompileRequest,
    *,
    timeout_s: float,
    notify: Callable[[str], None],
    overwrite: bool = False,
    operations: FileOperations | None = None,
    on_commit: Callable[[], None] = lambda: None,
) -> list[CompiledModel]:
    """Compile model files into context models in one folder: all of them, or none.

    The binary is named after the first source, as ep_weight_sharing_ctx_gen does:
    ``[model1]_[ep].bin``.

    Args:
        request: what to compile; the outputs of all jobs lie in one folder, which is created if it
            is missing.
        timeout_s: for all of it.
        notify: called with messages for the user.
        overwrite: replace existing context models, with the files that only they need.
        operations: change the disk; a rehearsal compiles elsewhere, and ends with the planned
            changes.
        on_commit: called once all files are in place.

    Raises:
        AuthoringError: an existing file may not be replaced, or the folder cannot be written.
        UsageError: two outputs have one name.
        CompileError and others: as :func:`~ortpkg.runtime.session.compile_models.compile_models`
        does.
    """
    _check_names(request)
    operations = operations or FileOperations()
    folder = Path(request.jobs[0].output).parent
    outputs = [Path(job.output).name for job in request.jobs]
    with _staging(folder, operations, notify) as staged:
        _check_targets(
            folder, outputs, outputs, overwrite=overwrite
        )  # checked before minutes of compiling
        made = compile_models(_staged_request(staged, request), timeout_s=timeout_s, notify=notify)
        target_names = _target_names(staged, made, outputs)
        if not operations.are_real:
            operations.announce(
                _planned(
                    folder,
                    staged,
                    _change(folder, staged, target_names, outputs, overwrite=overwrite),
                )
            )
        publish(
            folder,
            staged,
            lambda: _change(folder, staged, target_names, outputs, overwrite=overwrite),
            operations,
            on_wait=notify,
            on_commit=on_commit,
        )
    return [
        replace(model, output=folder / output) for model, output in zip(made, outputs, strict=True)
    ]


def _staging(
    folder: Path, operations: FileOperations, notify: Callable[[str], None]
) -> AbstractContextManager[Path]:
    return (
        staging_folder(folder, operations, on_wait=notify)
        if operations.are_real
        else _rehearsal_folder(folder, operations)
    )


@contextmanager
def _rehearsal_folder(folder: Path, operations: FileOperations) -> Iterator[Path]:
    """Yield a folder for a rehearsal, which refuses leftovers of a stopped command."""
    for leftover in leftovers(folder):
        operations.before("undo", leftover)
    with compile_folder() as temporary:
        folder_for_models = temporary / "new"
        folder_for_models.mkdir()
        yield folder_for_models


def _check_names(request: CompileRequest) -> None:
    check_outputs_differ(request)
    sources = {os.path.realpath(job.model) for job in request.jobs}
    for job in request.jobs:
        if os.path.realpath(job.output) in sources:
            raise UsageError(
                f"{quoted(job.output)} would be made, and is one of the sources: name another"
                " folder"
            )
    if len(request.jobs) > 1 and request.config_entries.get(CONTEXT_EXTERNAL_INITIALIZERS):
        raise UsageError(
            f"{CONTEXT_EXTERNAL_INITIALIZERS}: {len(request.jobs)} models cannot have one file for"
            " what stays on the CPU; compile them one by one, or leave it in the models"
        )


def _staged_request(staged: Path, request: CompileRequest) -> CompileRequest:
    """Return the request with staged outputs without ``_ctx``, and thus a binary without it."""
    names = [Path(job.output).name for job in request.jobs]
    short = [
        name.removesuffix(_CONTEXT_SUFFIX) + _MODEL_SUFFIX if _is_context(name) else name
        for name in names
    ]
    jobs = [
        replace(job, output=str(staged / name))
        for job, name in zip(request.jobs, short, strict=True)
    ]
    return replace(request, jobs=tuple(jobs))


def _is_context(name: str) -> bool:
    return name.endswith(_CONTEXT_SUFFIX) and name != _CONTEXT_SUFFIX


def _target_names(staged: Path, made: list[CompiledModel], outputs: list[str]) -> dict[str, str]:
    """Map the name of each staged file to its name in the folder.

    Context models are last, since they need the others.
    """
    models = {model.output.name: output for model, output in zip(made, outputs, strict=True)}
    others = {path.name: path.name for path in sorted(staged.iterdir()) if path.name not in models}
    for name in others:
        if name in models.values():
            raise UsageError(
                f"two files would become {quoted(name)}: they must have different names"
            )
    return {**others, **models}


def _change(
    folder: Path,
    staged: Path,
    target_names: Mapping[str, str],
    outputs: list[str],
    *,
    overwrite: bool,
) -> FileChange:
    """Return the planned change of the folder; AuthoringError if something is in the way."""
    adds = {
        name: target_name
        for name, target_name in target_names.items()
        if target_name in outputs or not have_same_bytes(staged / name, folder / target_name)
    }
    taken_away = _check_targets(folder, [*adds.values()], outputs, overwrite=overwrite)
    unchanged = set(target_names.values()) - set(adds.values())
    return FileChange(
        adds=adds, takes_away=tuple(name for name in taken_away if name not in unchanged)
    )


def _check_targets(
    folder: Path, names: list[str], outputs: list[str], *, overwrite: bool
) -> tuple[str, ...]:
    """Return the files that must be removed before ``names`` can be added.

    Raises:
        AuthoringError: something that has to stay is in the way.
    """
    existing = [name for name in names if os.path.lexists(folder / name)]
    if not existing:
        return ()
    if not overwrite:
        raise AuthoringError(
            f"{quoted(folder / existing[0])} exists already; --overwrite replaces context models,"
            " or name another folder"
        )
    neighbours = _neighbours(folder)
    replaced = [name for name in outputs if os.path.lexists(folder / name)]
    for name in replaced:
        if name not in neighbours.contexts:
            raise AuthoringError(
                f"{quoted(folder / name)} is no context model: it is not overwritten"
            )
    context_files = frozenset[str]().union(*(neighbours.contexts[name] for name in replaced))
    for name in existing:
        _check_other(folder, name, neighbours, replaced, context_files)
    needed = {
        file for name, files in neighbours.needs.items() if name not in replaced for file in files
    }
    left_over = [
        file for file in sorted(context_files - needed - {*existing}) if (folder / file).is_file()
    ]
    return (*replaced, *(name for name in existing if name not in replaced), *left_over)


def _check_other(
    folder: Path,
    name: str,
    neighbours: _Neighbours,
    replaced: list[str],
    context_files: frozenset[str],
) -> None:
    """Raise AuthoringError for a file beside the models that other models need, too."""
    if name in replaced:
        return
    path = folder / name
    if (
        path.is_symlink()
        or not path.is_file()
        or not (name in context_files or is_context_file(path))
    ):
        raise AuthoringError(
            f"{quoted(path)} is not what the replaced context models need: it is not overwritten"
        )
    others = [model for model in neighbours.needing(name) if model not in replaced]
    if others:
        raise AuthoringError(
            f"{quoted(path)} is not overwritten: {', '.join(map(quoted, others))}, which stays,"
            " needs it, too"
        )


def _planned(folder: Path, staged: Path, change: FileChange) -> PlannedFiles:
    before = {*change.takes_away}
    return PlannedFiles(
        root=folder,
        adds={
            target_name: (staged / name).stat().st_size
            for name, target_name in change.adds.items()
            if target_name not in before
        },
        changes=tuple(target_name for target_name in change.adds.values() if target_name in before),
        removes=tuple(name for name in change.takes_away if name not in change.adds.values()),
    )


def _neighbours(folder: Path) -> _Neighbours:
    """Read the ONNX files of a folder; links and unreadable files are not among them."""
    contexts: dict[str, frozenset[str]] = {}
    needs: dict[str, frozenset[str]] = {}
    for path in sorted(folder.glob(f"*{_MODEL_SUFFIX}")):
        if path.is_symlink() or not path.is_file():
            continue
        with suppress(OrtpkgError, OSError):
            facts = read_model_facts(path)
            files = set(facts.signature.context_files)
            needs[path.name] = frozenset(
                files | {file.location for file in facts.signature.external_files}
            )
            if facts.has_contexts:
                contexts[path.name] = frozenset(files)
    return _Neighbours(contexts=contexts, needs=needs)
