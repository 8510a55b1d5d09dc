"""Which files make up a variant: a model file with the data files that it names, or a whole folder.

Everything that is copied into a package is looked at first: plain files only, names that every
operating system can hold, external data present and long enough, and nothing outside the model's
own folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ortpkg.authoring.model_facts import ModelFacts, read_model_facts
from ortpkg.errors import AuthoringError, ModelFileError, ModelNotFoundError, quoted
from ortpkg.graph.linked_files import why_not_followed
from ortpkg.graph.model_signature import ModelSignature
from ortpkg.package.formats.executor_info import PATH_SESSION_OPTIONS
from ortpkg.package.formats.variant_model import GENAI_CONFIG
from ortpkg.package.package_info import VariantInfo
from ortpkg.package.paths.path_text import why_not_portable

_MODEL_SUFFIX = ".onnx"
_MOST_FILES = 10_000
_MOST_LEVELS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantFiles:
    """The files of a variant that is to be made.

    Attributes:
        sources: path in the variant's folder (with ``/``) → the file to copy.
        model_file: the ONNX file among them; None for a GenAI variant, which is a set of files.
        facts: about that file.
        nbytes: of all files together.
    """

    sources: Mapping[str, Path]
    model_file: str | None
    facts: ModelFacts | None
    nbytes: int


def collect_variant_files(model: Path) -> VariantFiles:
    """The files behind ``model``, an ONNX file or a folder.

    A file brings along the external data and compiled contexts that it names. A folder comes whole;
    it holds exactly one ``.onnx`` file, or a ``genai_config.json``. A symbolic link stands for the
    file that it leads to, under the link's name: the one that is passed here, those of a model
    cache, and those that belong to the current user.

    Raises:
        ModelNotFoundError: there is nothing at ``model``, or a file that it names is missing.
        ModelFileError: it is not ONNX, or names a file that is too short or lies outside its
            folder.
        AuthoringError: another symbolic link, a link to a folder, a special file, a name that is
            not portable, too many files, or a folder without a model.
    """
    if model.is_dir():
        return _collect_folder(model)
    facts = read_model_facts(model)
    needed = _needed_files(model, facts.signature)
    sources = {model.name: model.resolve()} | {
        path: (model.parent / path).resolve() for path in needed
    }
    return _checked(
        VariantFiles(
            sources=sources, model_file=model.name, facts=facts, nbytes=_total_nbytes(sources)
        )
    )


def why_not_a_data_file(folder: Path, location: str, nbytes: int) -> str | None:
    """Why ``location`` cannot serve a model in ``folder`` as a data file of at least ``nbytes``.

    None if it can.

    ``location`` is a checked relative path. A link anywhere on the way is refused, as onnx and
    onnxruntime do for data beside a real model file.
    """
    path = folder
    for part in PurePosixPath(location).parts:
        path /= part
        if path.is_symlink():
            return "is reached through a symbolic link"
    return why_not_long_enough(path, nbytes)


def is_linked_data(folder: Path, location: str, model: Path) -> bool:
    """Whether a session would follow the link at ``location`` beside ``model``, a link itself.

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
    """Why there is no regular file of at least ``nbytes`` at ``path``; None if there is."""
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
    """Files and folders that session options name; the variant needs them wherever it lies."""
    options = (variant.session_options.get(key) for key in PATH_SESSION_OPTIONS)
    # what the reader resolved is absolute
    return [variant.directory / option for option in options if option]


def data_files(signature: ModelSignature) -> dict[str, int]:
    """The files that a model needs beside it, as normal relative paths → least size in bytes."""
    needed: dict[str, int] = {}
    for external in signature.external_files:
        path = PurePosixPath(external.location).as_posix()
        needed[path] = max(needed.get(path, 0), external.nbytes)
    for context in signature.context_files:
        needed.setdefault(PurePosixPath(context).as_posix(), 1)
    return needed


def _needed_files(model: Path, signature: ModelSignature) -> list[str]:
    needed, folder = data_files(signature), model.parent
    for location, nbytes in needed.items():
        path = folder / location
        if reason := _why_not_to_copy(path, folder, model) or why_not_long_enough(path, nbytes):
            error = ModelNotFoundError if reason == "does not exist" else ModelFileError
            raise error(f"the model's data file {quoted(location)} {reason} (in {quoted(folder)})")
    return list(needed)


def _collect_folder(folder: Path) -> VariantFiles:
    sources = dict(_walk(folder))
    models = [path for path in sources if "/" not in path and path.lower().endswith(_MODEL_SUFFIX)]
    if len(models) == 1:
        facts = read_model_facts(folder / models[0])
        _needed_files(folder / models[0], facts.signature)
        found = VariantFiles(
            sources=sources, model_file=models[0], facts=facts, nbytes=_total_nbytes(sources)
        )
    elif GENAI_CONFIG in sources:
        found = VariantFiles(
            sources=sources, model_file=None, facts=None, nbytes=_total_nbytes(sources)
        )
    elif models:
        listed = ", ".join(map(quoted, models[:5]))
        raise AuthoringError(
            f"{quoted(folder)} holds {len(models)} ONNX files ({listed}): pass the one to be opened"
        )
    else:
        raise AuthoringError(f"{quoted(folder)} holds neither an ONNX file nor a {GENAI_CONFIG}")
    return _checked(found)


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    """Every file of a folder, sorted; links and special files are refused when they are met."""
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
    """Why a file or folder below ``folder`` cannot go into a package; None if it can."""
    if path.is_symlink():
        if path.is_dir():
            return "is a symbolic link to a folder"
        return _why_not_to_copy(path, folder, None) or (
            None if path.is_file() else "is not a regular file"
        )
    return None if path.is_file() or path.is_dir() else "is not a regular file"


def _why_not_to_copy(path: Path, folder: Path, model: Path | None) -> str | None:
    """Why the links to a file must not be followed for a copy, or why it is not there."""
    try:
        return why_not_followed(path, folder, model, with_own_links=True)
    except FileNotFoundError:
        return "is a symbolic link to nothing" if path.is_symlink() else "does not exist"
    except (OSError, RuntimeError) as error:
        return f"cannot be read: {error}"


def _checked(files: VariantFiles) -> VariantFiles:
    taken: dict[str, str] = {}
    for path in files.sources:
        if reason := why_not_portable(path):
            raise AuthoringError(
                f"the file name {quoted(path)} {reason}: rename the file (and what refers to it)"
            )
        if (other := taken.setdefault(path.casefold(), path)) != path:
            raise AuthoringError(
                f"{quoted(path)} and {quoted(other)} are one file where case does not count"
            )
    return files


def _total_nbytes(sources: Mapping[str, Path]) -> int:
    return sum(path.lstat().st_size for path in sources.values())


def _raise(error: OSError) -> None:
    raise AuthoringError(f"cannot read {quoted(error.filename)}: {error.strerror}") from error
