"""Collect the files of a variant: a model file with its data files, or a whole folder.

Everything copied into a package is checked first: regular files only, names that every operating
system can hold, external data present and long enough, and nothing outside the model's own folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from ortpkg.authoring.model_facts import ModelFacts, WeightlessMode, read_model_facts
from ortpkg.authoring.needed_files import needed_files
from ortpkg.foundations.errors import AuthoringError, ModelFileError, ModelNotFoundError, quoted
from ortpkg.graph.linked_files import why_not_followed
from ortpkg.package.formats.executor_info import (
    EXTERNAL_INITIALIZERS_FOLDER,
    PATH_SESSION_OPTIONS,
    SOURCE_MODEL,
    data_folder_of,
)
from ortpkg.package.formats.model_search import GENAI_CONFIG
from ortpkg.package.package_info import VariantInfo
from ortpkg.package.paths.path_text import why_not_portable

_MODEL_SUFFIX = ".onnx"
_MOST_FILES = 10_000
_MOST_LEVELS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantFiles:
    """Files of a variant to be added.

    Attributes:
        sources: path in the variant's folder (with ``/``) → the file to copy.
        model_file: the ONNX file among them; None for a GenAI variant, which is a set of files.
        facts: of that file.
        nbytes: size of all files together.
        is_complete: False if weightless contexts take weights from unknown files.
    """

    sources: Mapping[str, Path]
    model_file: str | None
    facts: ModelFacts | None
    nbytes: int
    is_complete: bool = True


def collect_variant_files(model: Path, *, source_model: str | None = None) -> VariantFiles:
    """Return the files of ``model``, an ONNX file or a folder.

    A file brings along the external data and compiled contexts that it names, and the model from
    which weightless contexts take their weights: ``source_model``, relative to the file's folder,
    or else the one that the contexts name. A folder is taken as a whole and holds exactly one
    ``.onnx`` file, or a ``genai_config.json``. A symbolic link stands for the file that it leads
    to, under the link's name, if it is the one passed here, one of a model cache, or belongs to the
    current user.

    Raises:
        ModelNotFoundError: there is nothing at ``model``, or a file that it names is missing.
        ModelFileError: it is not ONNX, or names a file that is too short or lies outside its
            folder.
        AuthoringError: there is another symbolic link, a link to a folder, a special file, a name
            that is not portable, too many files, or a folder without a model.
    """
    if model.is_dir():
        return _collect_folder(model, source_model)
    facts = read_model_facts(model)
    needed, is_complete = _needed_files(model, facts, source_model)
    sources = {model.name: model.resolve()} | {
        path: (model.parent / path).resolve() for path in needed
    }
    return _checked(
        VariantFiles(
            sources=sources,
            model_file=model.name,
            facts=facts,
            nbytes=_total_nbytes(sources),
            is_complete=is_complete,
        )
    )


def why_not_a_data_file(folder: Path, location: str, nbytes: int) -> str | None:
    """Return why ``location`` is not a data file of at least ``nbytes``; None if it is.

    ``location`` is a checked path relative to ``folder``. A link anywhere on the way is refused, as
    onnx and onnxruntime do for data beside a real model file.
    """
    path = folder
    for part in PurePosixPath(location).parts:
        path /= part
        if path.is_symlink():
            return "is reached through a symbolic link"
    return why_not_long_enough(path, nbytes)


def is_linked_data(folder: Path, location: str, model: Path) -> bool:
    """Return True if a session follows the link at ``location`` beside ``model``, itself a link.

    ``location`` is a checked relative path from ``folder``.
    """
    path = folder / location
    try:
        is_followed = model.is_symlink() and not why_not_followed(
            path, folder, model, with_own_links=False
        )
    except (OSError, RuntimeError):
        return False
    return is_followed and path.is_file() and path.resolve() != folder.resolve() / location


def why_not_long_enough(path: Path, nbytes: int) -> str | None:
    """Return why there is no regular file of at least ``nbytes`` at ``path``; None if there is."""
    try:
        status = path.stat()
    except OSError:
        return "does not exist"
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file"
    return (
        f"is too short: {status.st_size} bytes of {nbytes} needed"
        if status.st_size < nbytes
        else None
    )


def option_places(variant: VariantInfo) -> list[Path]:
    """Return files and folders that session options name; the variant needs them wherever it is."""
    options = (variant.session_options.get(key) for key in PATH_SESSION_OPTIONS)
    # paths that the reader resolved are absolute
    return [variant.directory / option for option in options if option]


def source_model_of(variant: VariantInfo) -> Path | None:
    """Return the source of weightless contexts that the variant's options name, if any."""
    option = variant.session_options.get(SOURCE_MODEL)
    return variant.directory / option if option else None


def files_of_model(variant: VariantInfo, model: Path) -> dict[str, Path]:
    """Return the files that a variant's model needs besides itself; they may not exist.

    The keys are their paths if all lie beside the model.

    Raises:
        ModelError: the model cannot be read.
    """
    option = variant.session_options.get(EXTERNAL_INITIALIZERS_FOLDER)
    needed = needed_files(
        model,
        read_model_facts(model),
        data_folder=variant.directory / option if option else None,
        source_model=source_model_of(variant),
    )
    return needed.current_paths(model, data_folder_of(variant))


def _needed_files(
    model: Path, facts: ModelFacts, source_model: str | None
) -> tuple[list[str], bool]:
    """Return the paths of files to copy with the model, and True if these are all it needs."""
    folder, signature = model.parent, facts.signature
    if source_model is not None:
        signature = replace(signature, source_models=(source_model,))
    needed = needed_files(model, replace(facts, signature=signature))
    if facts.weightless_mode is WeightlessMode.ALL and (
        needed.elsewhere or not signature.source_models
    ):
        source_names = ", ".join(map(quoted, signature.source_models)) or "and do not name it"
        raise ModelNotFoundError(
            f"the contexts of {quoted(model.name)} take all weights from the model that was"
            f" compiled, {source_names}: put it beside the compiled one, and state the session"
            f" option {SOURCE_MODEL} with its name"
        )
    for location, nbytes in needed.locations.items():
        path = folder / location
        if reason := _why_not_to_copy(path, folder, model) or why_not_long_enough(path, nbytes):
            error = ModelNotFoundError if reason == "does not exist" else ModelFileError
            role = "data file"
            if location in signature.source_models:
                role = "source model, from which its contexts take weights,"
            raise error(f"the model's {role} {quoted(location)} {reason} (in {quoted(folder)})")
    return list(needed.locations), needed.is_complete


def _collect_folder(folder: Path, source_model: str | None) -> VariantFiles:
    sources = dict(_walk(folder))
    models = [path for path in sources if "/" not in path and path.lower().endswith(_MODEL_SUFFIX)]
    if len(models) == 1:
        facts = read_model_facts(folder / models[0])
        _, is_complete = _needed_files(folder / models[0], facts, source_model)
        files = VariantFiles(
            sources=sources,
            model_file=models[0],
            facts=facts,
            nbytes=_total_nbytes(sources),
            is_complete=is_complete,
        )
    elif GENAI_CONFIG in sources:
        files = VariantFiles(
            sources=sources, model_file=None, facts=None, nbytes=_total_nbytes(sources)
        )
    elif models:
        listed = ", ".join(map(quoted, models[:5]))
        raise AuthoringError(
            f"{quoted(folder)} holds {len(models)} ONNX files ({listed}): pass the one to be opened"
        )
    else:
        raise AuthoringError(f"{quoted(folder)} holds neither an ONNX file nor a {GENAI_CONFIG}")
    return _checked(files)


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield every file of a folder, sorted; links and special files are refused when met."""
    count = 0
    for parent, directories, names in os.walk(folder, onerror=_raise):
        directories.sort()
        level = len(Path(parent).relative_to(folder).parts)
        if level > _MOST_LEVELS:
            raise AuthoringError(f"{quoted(folder)} has more than {_MOST_LEVELS} levels of folders")
        for name in (*directories, *sorted(names)):
            path = Path(parent, name)
            if reason := _why_not_copied(path, folder):
                raise AuthoringError(
                    f"{quoted(path)} {reason}: a package holds plain files only (cp -L copies them)"
                )
            if path.is_file():
                count += 1
                yield path.relative_to(folder).as_posix(), path.resolve()
        if count > _MOST_FILES:
            raise AuthoringError(
                f"{quoted(folder)} holds more than {_MOST_FILES} files: is it the right folder?"
            )


def _why_not_copied(path: Path, folder: Path) -> str | None:
    """Return why a file or folder below ``folder`` cannot go into a package; None if it can."""
    if path.is_symlink():
        if path.is_dir():
            return "is a symbolic link to a folder"
        return _why_not_to_copy(path, folder, None) or (
            None if path.is_file() else "is not a regular file"
        )
    return None if path.is_file() or path.is_dir() else "is not a regular file"


def _why_not_to_copy(path: Path, folder: Path, model: Path | None) -> str | None:
    """Return why the links to a file must not be followed for a copy, or why it is missing."""
    try:
        return why_not_followed(path, folder, model, with_own_links=True)
    except FileNotFoundError:
        return "is a symbolic link to nothing" if path.is_symlink() else "does not exist"
    except (OSError, RuntimeError) as error:
        return f"cannot be read: {error}"


def _checked(files: VariantFiles) -> VariantFiles:
    spellings: dict[str, str] = {}
    for path in files.sources:
        if reason := why_not_portable(path):
            raise AuthoringError(
                f"the file name {quoted(path)} {reason}: rename the file (and what refers to it)"
            )
        if (other := spellings.setdefault(path.casefold(), path)) != path:
            raise AuthoringError(
                f"{quoted(path)} and {quoted(other)} are one file where case does not count"
            )
    return files


def _total_nbytes(sources: Mapping[str, Path]) -> int:
    return sum(path.lstat().st_size for path in sources.values())


def _raise(error: OSError) -> None:
    raise AuthoringError(f"cannot read {quoted(error.filename)}: {error.strerror}") from error
