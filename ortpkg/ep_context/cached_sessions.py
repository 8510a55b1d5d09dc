"""Partitioned models beside their contexts: with them, a later session needs no source model.

A context spares the compiling; to look at the source's graph, transform it and tell what of it is
in the cache takes as long as to load the context. So the model that a session came to, EPContext
nodes and what other nodes need, is kept under a key of everything that it came from: the model's
files, the options, the providers and their environments. Its contexts are entries of the cache as
any; where one is gone, the model is as if it were not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.ep_context.cache_leftovers import drop_leftovers
from ortpkg.ep_context.ep_context_cache import EpContextCache
from ortpkg.errors import ModelFileError
from ortpkg.storage.digest_cache import file_sha256
from ortpkg.storage.file_replacement import replace_file

_log = logging.getLogger(__name__)

_SCHEMA_VERSION = 1
_NOTE, _MODEL = ".session", ".session.onnx"
#: Models that are kept; those that were used last stay.
_MOST_KEPT = 200
_MOST_NOTE_NBYTES = 16 << 20
#: What other nodes need comes along; a model of which most stays elsewhere is not worth keeping.
MOST_MODEL_NBYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedSession:
    """A partitioned model in the cache.

    Attributes:
        model: its file; the contexts lie beside it.
        details: what else its writer kept of the session; JSON.
    """

    model: Path
    details: Mapping[str, Any]


class CachedSessions:
    """The partitioned models in a cache of contexts."""

    def __init__(self, cache: EpContextCache) -> None:
        self._cache = cache
        self._directory = cache.directory

    def find(self, key: str, folder: Path) -> CachedSession | None:
        """The model of that key, if its contexts are there and its weights' files are unchanged.

        Args:
            key: of :func:`session_key`.
            folder: of the source model, where its external data lies.
        """
        note = self._read(key)
        if note is None or not self._are_there(note["contexts"]):
            return None
        if any(file_sha256(folder / name) != digest for name, digest in note["data"].items()):
            return None
        for path in (
            self._directory / f"{key}{_NOTE}",
            *map(self._cache.note_path, note["contexts"]),
        ):
            with contextlib.suppress(OSError):
                os.utime(path)
        return CachedSession(model=self._directory / f"{key}{_MODEL}", details=note["details"])

    def write(
        self,
        key: str,
        model: bytes,
        *,
        contexts: Iterable[str],
        data: Mapping[str, str],
        details: Mapping[str, Any],
    ) -> None:
        """Keep a model, if the disk lets it; what killed sessions left half written goes.

        Args:
            key: of :func:`session_key`.
            model: serialized; its EPContext nodes name files of the cache.
            contexts: keys of these.
            data: file of external data, as the source names it → its digest.
            details: JSON.
        """
        keys = sorted(set(contexts))
        note = {
            "schema_version": _SCHEMA_VERSION,
            "contexts": keys,
            "data": dict(data),
            "details": dict(details),
        }
        text = json.dumps(note, sort_keys=True).encode()
        if (
            len(model) > MOST_MODEL_NBYTES
            or len(text) > _MOST_NOTE_NBYTES
            or not self._are_there(keys)
        ):
            return
        try:
            replace_file(self._directory / f"{key}{_MODEL}", lambda file: file.write(model))
            replace_file(self._directory / f"{key}{_NOTE}", lambda file: file.write(text))
        except (OSError, ModelFileError) as error:
            _log.info("a partitioned model cannot be kept: %s", error)
            return
        drop_leftovers(self._cache.directory)
        self.prune()

    def drop(self, key: str) -> None:
        """Delete a model; its contexts stay."""
        for ending in (_NOTE, _MODEL):
            with contextlib.suppress(OSError):
                (self._directory / f"{key}{ending}").unlink(missing_ok=True)

    def prune(self) -> None:
        """Delete models whose contexts are gone, and, of too many, the least recently used."""
        for key in self.outdated():
            self.drop(key)

    def outdated(self, *, gone: Collection[str] = ()) -> list[str]:
        """Keys of what :meth:`prune` would delete if the contexts ``gone`` were not there."""
        found: list[tuple[int, str]] = []
        outdated: list[str] = []
        with contextlib.suppress(OSError):
            for path in self._directory.glob(f"*{_MODEL}"):
                key = path.name.removesuffix(_MODEL)
                note = self._read(key)
                if note is None or not self._are_there(note["contexts"], gone):
                    outdated.append(key)
                else:
                    found.append(((self._directory / f"{key}{_NOTE}").stat().st_mtime_ns, key))
        return [*outdated, *(key for _, key in sorted(found, reverse=True)[_MOST_KEPT:])]

    def files_of(self, key: str) -> list[Path]:
        """The files of a model that are there."""
        return [
            path
            for path in (self._directory / f"{key}{end}" for end in (_NOTE, _MODEL))
            if path.is_file()
        ]

    def _are_there(self, contexts: Iterable[str], gone: Collection[str] = ()) -> bool:
        return all(key not in gone and self._cache.has(key) for key in contexts)

    def _read(self, key: str) -> dict[str, Any] | None:
        try:
            with (self._directory / f"{key}{_NOTE}").open("rb") as file:
                note = json.loads(file.read(_MOST_NOTE_NBYTES))
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(note, dict) or note.get("schema_version") != _SCHEMA_VERSION:
            return None
        contexts, data, details = note.get("contexts"), note.get("data"), note.get("details")
        if not (
            isinstance(contexts, list) and isinstance(data, dict) and isinstance(details, dict)
        ):
            return None
        return (
            note
            if all(isinstance(each, str) for each in (*contexts, *data, *data.values()))
            else None
        )


def session_key(*parts: object) -> str:
    """The key of what came from all of ``parts`` (JSON)."""
    return hashlib.sha256(
        json.dumps([_SCHEMA_VERSION, *parts], sort_keys=True).encode()
    ).hexdigest()[:40]
