"""Partitioned models beside their contexts, with which a later session needs no source model.

A context spares the compilation; but reading the source's graph, transforming it and looking up its
parts in the cache takes as long as loading the context. So the resulting model of a session, with
EPContext nodes and the data of other nodes, is stored under a key of everything that it was made
from: the model's files, the options, the providers and their environments. Its contexts are
ordinary entries of the cache; if one is missing, the model is not used.
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

from ortpkg.foundations.errors import ModelFileError
from ortpkg.foundations.storage.digest_cache import file_sha256
from ortpkg.foundations.storage.file_replacement import replace_file
from ortpkg.runtime.ep_context.cache_leftovers import drop_leftovers
from ortpkg.runtime.ep_context.ep_context_cache import EpContextCache

_log = logging.getLogger(__name__)

_SCHEMA_VERSION = 1
_NOTE, _MODEL = ".session", ".session.onnx"
#: Most models that are kept; the least recently used are dropped.
_MOST_KEPT = 200
_MOST_NOTE_NBYTES = 16 << 20
#: Largest model that is kept, in bytes, with the data of nodes outside of contexts.
MOST_MODEL_NBYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedSession:
    """A partitioned model in the cache.

    Attributes:
        model: path of the model; the contexts lie beside it.
        details: further data of the session from its writer; JSON.
    """

    model: Path
    details: Mapping[str, Any]


class SessionCache:
    """The partitioned models in a cache of contexts."""

    def __init__(self, cache: EpContextCache) -> None:
        self._cache = cache
        self._directory = cache.directory

    def find(self, key: str, folder: Path) -> CachedSession | None:
        """Return the model of a key if its contexts exist and its weights' files are unchanged.

        Args:
            key: key from :func:`session_key`.
            folder: folder of the source model, with its external data.
        """
        note = self._read(key)
        if note is None or not self._contexts_exist(note["contexts"]):
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
        """Store a model if the disk allows it; half-written files of killed sessions are deleted.

        Args:
            key: key from :func:`session_key`.
            model: serialized model; its EPContext nodes name files of the cache.
            contexts: keys of these contexts.
            data: file of external data, as the source names it → its digest.
            details: further data; JSON.
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
            or not self._contexts_exist(keys)
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
        """Delete models whose contexts are missing, and the least recently used of too many."""
        for key in self.outdated():
            self.drop(key)

    def outdated(self, *, missing: Collection[str] = ()) -> list[str]:
        """Return the keys that :meth:`prune` would delete if ``missing`` contexts did not exist."""
        usable: list[tuple[int, str]] = []
        outdated: list[str] = []
        with contextlib.suppress(OSError):
            for path in self._directory.glob(f"*{_MODEL}"):
                key = path.name.removesuffix(_MODEL)
                note = self._read(key)
                if note is None or not self._contexts_exist(note["contexts"], missing):
                    outdated.append(key)
                else:
                    usable.append(((self._directory / f"{key}{_NOTE}").stat().st_mtime_ns, key))
        return [*outdated, *(key for _, key in sorted(usable, reverse=True)[_MOST_KEPT:])]

    def files_of(self, key: str) -> list[Path]:
        """Return the existing files of a model."""
        return [
            path
            for path in (self._directory / f"{key}{end}" for end in (_NOTE, _MODEL))
            if path.is_file()
        ]

    def _contexts_exist(self, contexts: Iterable[str], missing: Collection[str] = ()) -> bool:
        return all(key not in missing and self._cache.has(key) for key in contexts)

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
            if all(isinstance(text, str) for text in (*contexts, *data, *data.values()))
            else None
        )


def session_key(*parts: object) -> str:
    """Return the key of a session made from all of ``parts`` (JSON)."""
    return hashlib.sha256(
        json.dumps([_SCHEMA_VERSION, *parts], sort_keys=True).encode()
    ).hexdigest()[:40]
