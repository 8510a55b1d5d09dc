"""Pickles of sessions: what a session was created from, to create it anew in another process."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import onnx

from ortpkg.foundations.errors import DigestMismatchError, SessionError, quoted
from ortpkg.foundations.quantities import nbytes_text
from ortpkg.foundations.storage.file_stamp import FileStamp
from ortpkg.foundations.storage.hashing import hash_file, hash_file_with_stamp
from ortpkg.graph.model_file import ModelSource
from ortpkg.runtime.session.session_wishes import SessionWishes

#: Largest model in memory, in bytes, that is copied into a pickle.
MOST_PICKLED_NBYTES = 64 << 20
#: Largest file of external data, in bytes, that is compared by its SHA-256: seconds of reading.
MOST_HASHED_NBYTES = 1 << 30
_Session = TypeVar("_Session")


@dataclass(frozen=True, slots=True, kw_only=True)
class PickledModelFile:
    """A file of a model, which must be the same when the session is created anew.

    Attributes:
        path: absolute path; of a data file below the model's folder, its path from there.
        nbytes: size of the file.
        sha256: digest of its bytes; "" for external data of more than MOST_HASHED_NBYTES.
    """

    path: str
    nbytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path, opened: FileStamp, *, most_hashed_nbytes: int) -> PickledModelFile:
        """Describe the file that a session was made of.

        Args:
            path: absolute path of the file.
            opened: the file's stamp from when the session was made.
            most_hashed_nbytes: size above which the file is known by its size only.

        Raises:
            SessionError: the file cannot be read, or was changed since.
        """
        sha256 = ""
        try:
            stamp: FileStamp | None = FileStamp.of(path.stat())
            if opened.nbytes <= most_hashed_nbytes and opened.is_same_content(stamp):
                hashed = hash_file_with_stamp(path.resolve())
                stamp, sha256 = hashed.stamp, hashed.digest.sha256
        except OSError as error:
            raise SessionError(
                f"the session cannot be pickled: {quoted(path)} cannot be read:"
                f" {error.strerror or error}"
            ) from error
        if not opened.is_same_content(stamp):
            raise SessionError(
                f"the session cannot be pickled: {quoted(path)} was changed after the session was"
                " made; make the session again from the file as it is now"
            )
        return cls(path=str(path), nbytes=opened.nbytes, sha256=sha256)

    def verified_path(self, folder: Path = Path()) -> str:
        """Return the path, from ``folder`` on if it is relative.

        Raises:
            SessionError: the file cannot be read.
            DigestMismatchError: the file is not the same.
        """
        path = folder / self.path
        try:
            nbytes, sha256 = path.stat().st_size, ""
            if nbytes == self.nbytes and self.sha256:
                sha256 = hash_file(path.resolve()).sha256
        except OSError as error:
            raise SessionError(
                f"the pickled session's model {quoted(path)} cannot be read here:"
                f" {error.strerror or error}; the file has to be at the same path"
            ) from error
        if (nbytes, sha256) != (self.nbytes, self.sha256):
            raise DigestMismatchError(
                f"{quoted(path)} is another file than that of the pickled session: make a"
                " session of it instead",
                file=str(path),
                expected=self.sha256,
                actual=sha256,
            )
        return str(path)


def session_recipe(
    wishes: SessionWishes, files: Mapping[Path, FileStamp], *, falls_back: bool
) -> dict[str, Any]:
    """Return the arguments that create the session anew, all of which can be pickled.

    Args:
        wishes: arguments of the session.
        files: files that the session was made of, as they were then
            (:class:`~ortpkg.runtime.session.session_wishes.SessionParts`).
        falls_back: True to warn and use the CPU if an execution provider fails.

    Raises:
        SessionError: an argument cannot be pickled, a file was changed since, or the model is large
            and in memory only.
    """
    request = wishes.request
    arguments = {
        "sess_options": wishes.options,
        "providers": request.providers,
        "provider_options": request.provider_options,
        "backend": request.backend,
        "ep_devices": request.ep_devices,
        "isolate": request.isolation is not None,
        "check_contexts": wishes.check_contexts,
        "transformers": wishes.transformers,
        "is_confined": wishes.is_confined,
        "enable_fallback": falls_back,
        "allow_fallback": request.allows_fallback,
    }
    for name, value in arguments.items():
        _verify_can_be_pickled(name, value)
    source, data = _pickled_source(wishes.source, files)
    return {"path_or_bytes": source, "data_files": data, **arguments}


def remade(create: Callable[..., _Session], recipe: Mapping[str, Any]) -> _Session:
    """Create a session with the arguments of :func:`session_recipe`; raise as that does."""
    arguments = dict(recipe)
    data, source, folder = arguments.pop("data_files", ()), arguments["path_or_bytes"], Path()
    if isinstance(source, PickledModelFile):
        source = source.verified_path()
        folder = Path(source).resolve().parent
    for file in data:
        file.verified_path(folder)
    return create(**{**arguments, "path_or_bytes": source})


def _pickled_source(
    source: ModelSource, files: Mapping[Path, FileStamp]
) -> tuple[PickledModelFile | bytes, tuple[PickledModelFile, ...]]:
    """Return the model, by its file or its bytes, and the files of its external data."""
    data = dict(files)
    if not isinstance(source, str | os.PathLike):
        return _pickled_content(source), tuple(_pickled_data(data, None))
    path = next(iter(data))
    model = PickledModelFile.of(path, data.pop(path), most_hashed_nbytes=sys.maxsize)
    return model, tuple(_pickled_data(data, path.resolve().parent))


def _pickled_data(
    files: Mapping[Path, FileStamp], folder: Path | None
) -> Iterator[PickledModelFile]:
    for path, opened in files.items():
        file = PickledModelFile.of(path, opened, most_hashed_nbytes=MOST_HASHED_NBYTES)
        if folder is not None and path.is_relative_to(folder):
            file = replace(file, path=str(path.relative_to(folder)))
        yield file


def _pickled_content(source: bytes | onnx.ModelProto) -> bytes:
    content = source if isinstance(source, bytes) else source.SerializeToString()
    if len(content) > MOST_PICKLED_NBYTES:
        raise SessionError(
            f"a session of a model of {nbytes_text(len(content))} in memory cannot be pickled (at"
            f" most {nbytes_text(MOST_PICKLED_NBYTES)}): save the model to a file, and make the"
            " session from its path"
        )
    return content


def _verify_can_be_pickled(name: str, value: object) -> None:
    try:
        pickle.dumps(value)
    except Exception as error:  # whatever the caller's objects raise
        raise SessionError(
            f"the session cannot be pickled, since its {name} cannot be: {error}; make the session"
            " anew in the other process"
        ) from error
