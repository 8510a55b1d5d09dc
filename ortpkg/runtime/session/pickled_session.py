"""Pickles of sessions: what a session was created from, to create it anew in another process."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ortpkg.foundations.errors import DigestMismatchError, SessionError, quoted
from ortpkg.foundations.quantities import nbytes_text
from ortpkg.foundations.storage.hashing import hash_file
from ortpkg.graph.model_file import ModelSource
from ortpkg.runtime.session.session_wishes import SessionWishes

#: Largest model in memory, in bytes, that is copied into a pickle.
MOST_PICKLED_NBYTES = 64 << 20
_Session = TypeVar("_Session")


@dataclass(frozen=True, slots=True, kw_only=True)
class PickledModelFile:
    """A model file, which must be the same when the session is created anew.

    External data beside the model is not compared.
    """

    path: str
    nbytes: int
    sha256: str

    @classmethod
    def of(cls, path: str) -> PickledModelFile:
        """Describe the file at ``path`` as it is now; SessionError if it cannot be read."""
        try:
            digest = hash_file(Path(path).resolve())
        except OSError as error:
            raise SessionError(
                f"the session cannot be pickled: {quoted(path)} cannot be read:"
                f" {error.strerror or error}"
            ) from error
        return cls(path=str(Path(path).absolute()), nbytes=digest.nbytes, sha256=digest.sha256)

    def verified_path(self) -> str:
        """Return the path; SessionError or DigestMismatchError if the file is not the same."""
        try:
            digest = hash_file(Path(self.path).resolve())
        except OSError as error:
            raise SessionError(
                f"the pickled session's model {quoted(self.path)} cannot be read here:"
                f" {error.strerror or error}; the file has to be at the same path"
            ) from error
        if (digest.nbytes, digest.sha256) != (self.nbytes, self.sha256):
            raise DigestMismatchError(
                f"{quoted(self.path)} is another file than that of the pickled session: make a"
                " session of it instead",
                file=self.path,
                expected=self.sha256,
                actual=digest.sha256,
            )
        return self.path


def session_recipe(wishes: SessionWishes, *, falls_back: bool) -> dict[str, Any]:
    """Return the arguments that create the session anew, all of which can be pickled.

    Raises:
        SessionError: an argument cannot be pickled, or the model is large and in memory only.
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
    return {"path_or_bytes": _pickled_source(wishes.source), **arguments}


def remade(create: Callable[..., _Session], recipe: Mapping[str, Any]) -> _Session:
    """Create a session with the arguments of :func:`session_recipe`; raise as that does."""
    source = recipe["path_or_bytes"]
    if isinstance(source, PickledModelFile):
        source = source.verified_path()
    return create(**{**recipe, "path_or_bytes": source})


def _pickled_source(source: ModelSource) -> PickledModelFile | bytes:
    if isinstance(source, str | os.PathLike):
        return PickledModelFile.of(os.fspath(source))
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
