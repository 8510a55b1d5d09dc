"""Files and payloads of compiled contexts: a readable index, then each blob once.

One file holds every partition of every model of a group::

    16 bytes   magic and version of the form
     8 bytes   length of the index, little-endian
    32 bytes   SHA-256 of the index
               index: JSON, UTF-8: {"ep", "blobs": [{"offset", "nbytes", "sha256"}],
                                    "entries": [{"name", "descriptor", "arity": [inputs, outputs],
                                                 "parts": {"graph": 0, "weight:w": 1}}]}
               blobs, each at a multiple of 4096 from the start of the file: they can be mapped

Offsets and lengths are untrusted: all are checked against the file before anything is read, and a
blob is compared with its SHA-256 before an execution provider sees it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ortpkg.foundations.errors import EpContextError, ModelFileError, quoted
from ortpkg.foundations.storage.context_file_mark import MAGIC
from ortpkg.foundations.storage.file_stamp import FileStamp
from ortpkg.runtime.ep_context.ep_context_checks import CheckedBlobs, PartsFile
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor, descriptor_from_json
from ortpkg.runtime.ep_context.mapped_context import MappedContext, map_context

LENGTH_NBYTES = 8
_DIGEST_NBYTES = 32
HEADER_NBYTES = len(MAGIC) + LENGTH_NBYTES + _DIGEST_NBYTES
ALIGNMENT = 4096
#: Limits on what is read; a real index has a few kilobytes.
MOST_INDEX_NBYTES = 16 << 20
MOST_ENTRIES = 100_000
_DIGEST_CHARACTERS = 64

#: Bytes of a part: anything that has a buffer.
Part = bytes | memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextEntry:
    """Compiled context of one partition.

    Attributes:
        name: name of the partition; unique in its file (``partition_name`` of the EPContext node).
        descriptor: what it was made from and for.
        parts: data of the EP, by names of its own choice ("blob", "graph", "weight:fc1", ...).
        digests: SHA-256 of the parts, if they were read from a file or payload; empty before they
            are written.
        arity: number of inputs and outputs of the partition; None if the file does not say.
        file: file that the parts were mapped from; None if there is none, or it was being replaced.
        source: what the EP compiled it from, for the end of a session group; never written.
        is_foreign: True if another tool made it: what its descriptor lacks is unknown.
    """

    name: str
    descriptor: ContextDescriptor
    parts: Mapping[str, Part]
    digests: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    arity: tuple[int, int] | None = None
    file: PartsFile | None = None
    source: object = None
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class _Blob:
    offset: int
    nbytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _IndexedEntry:
    descriptor: ContextDescriptor
    parts: Mapping[str, int]
    arity: tuple[int, int] | None


class ContextFile:
    """Contexts that can be looked up by partition name.

    Their bytes are read and checked only on demand.

    Attributes:
        ep: name of the execution provider that made it.
        nbytes: total size.
    """

    def __init__(
        self,
        data: memoryview,
        *,
        ep_name: str,
        where: str,
        checked: CheckedBlobs | None = None,
        stamped_path: tuple[Path, FileStamp] | None = None,
    ) -> None:
        """Read the index of ``data``.

        Args:
            data: the file or the payload.
            ep_name: execution provider, for messages.
            where: description of ``data``, for messages.
            checked: blobs that need no comparison with their digest any more; None to compare all,
                each time.
            stamped_path: path and stamp of the file; None if ``data`` is not a file, or its stamp
                is not settled.

        Raises:
            EpContextError: not a context of ortpkg, truncated, or beyond a limit.
        """
        self._data = data
        self._ep_name = ep_name
        self._where = where
        self._checked_blobs = checked
        self._stamped_path = stamped_path
        #: Blobs that this object has compared: partitions share them, and each is compared once.
        self._compared: set[int] = set()
        self.nbytes = data.nbytes
        index = self._read_index()
        try:
            self.ep, self._blobs, self._entries = self._parse(index)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._damaged(f"its index is not what it should be: {error}") from error

    @property
    def names(self) -> tuple[str, ...]:
        """Partition names, in order."""
        return tuple(self._entries)

    def descriptor(self, name: str) -> ContextDescriptor:
        """Return the descriptor of a partition's context; EpContextError if there is none."""
        return self._entry(name).descriptor

    def entry(self, name: str) -> ContextEntry:
        """Return the context of a partition, with each part compared with its digest.

        Raises:
            EpContextError: there is none, or a byte has changed.
        """
        indexed = self._entry(name)
        parts = {part: self._checked(blob, name, part) for part, blob in indexed.parts.items()}
        digests = {part: self._blobs[blob].sha256 for part, blob in indexed.parts.items()}
        return ContextEntry(
            name=name,
            descriptor=indexed.descriptor,
            parts=MappingProxyType(parts),
            digests=MappingProxyType(digests),
            arity=indexed.arity,
            file=self._file_of(indexed),
        )

    def _file_of(self, entry: _IndexedEntry) -> PartsFile | None:
        if self._stamped_path is None:
            return None
        offsets = {part: self._blobs[blob].offset for part, blob in entry.parts.items()}
        return PartsFile(
            path=self._stamped_path[0],
            stamp=self._stamped_path[1],
            offsets=MappingProxyType(offsets),
        )

    def _entry(self, name: str) -> _IndexedEntry:
        indexed = self._entries.get(name)
        if indexed is None:
            names = ", ".join(map(quoted, list(self._entries)[:5])) or "none"
            raise EpContextError(
                f"{self._where} has no context of partition {quoted(name)}; it has {names}",
                ep_name=self._ep_name,
                source=self.ep,
                partition_name=name,
            )
        return indexed

    def _checked(self, number: int, name: str, part: str) -> memoryview:
        blob = self._blobs[number]
        data = self._data[blob.offset : blob.offset + blob.nbytes]
        if number in self._compared or (
            self._checked_blobs is not None and (blob.offset, blob.sha256) in self._checked_blobs
        ):
            return data
        if hashlib.sha256(data).hexdigest() != blob.sha256:
            raise EpContextError(
                f"{self._where} is damaged: {quoted(part)} of partition {quoted(name)} is not what"
                " was written (SHA-256 differs); compile it anew",
                ep_name=self._ep_name,
                partition_name=name,
            )
        self._compared.add(number)
        if self._checked_blobs is not None:
            self._checked_blobs.add((blob.offset, blob.sha256))
        return data

    def _read_index(self) -> Any:
        if bytes(self._data[: len(MAGIC)]) != MAGIC:
            raise EpContextError(
                f"{self._where} is not a context that ortpkg wrote (its first bytes are "
                f"{quoted(bytes(self._data[:16]))}); compile the model anew",
                ep_name=self._ep_name,
            )
        length = int.from_bytes(self._data[len(MAGIC) : len(MAGIC) + LENGTH_NBYTES], "little")
        if self._data.nbytes < HEADER_NBYTES or length > MOST_INDEX_NBYTES:
            raise self._damaged(
                f"its index would have {length} bytes, of at most {MOST_INDEX_NBYTES}"
            )
        if HEADER_NBYTES + length > self._data.nbytes:
            raise self._damaged(f"it ends after {self._data.nbytes} bytes, within its index")
        text = bytes(self._data[HEADER_NBYTES : HEADER_NBYTES + length])
        if hashlib.sha256(text).digest() != bytes(
            self._data[HEADER_NBYTES - _DIGEST_NBYTES : HEADER_NBYTES]
        ):
            raise self._damaged("its index is not what was written (SHA-256 differs)")
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._damaged("its index is no JSON") from error

    def _parse(self, index: Any) -> tuple[str, tuple[_Blob, ...], dict[str, _IndexedEntry]]:
        blobs = tuple(self._blob(document) for document in index["blobs"])
        if len(index["entries"]) > MOST_ENTRIES:
            raise ValueError(f"more than {MOST_ENTRIES} entries")
        entries: dict[str, _IndexedEntry] = {}
        for document in index["entries"]:
            name, parts = document["name"], document["parts"]
            if not isinstance(name, str) or name in entries:
                raise ValueError(f"the name {quoted(name)} is no text, or comes twice")
            if not all(
                isinstance(number, int) and 0 <= number < len(blobs) for number in parts.values()
            ):
                raise ValueError(f"partition {quoted(name)} names a blob that does not exist")
            entries[name] = _IndexedEntry(
                descriptor=descriptor_from_json(document["descriptor"]),
                parts=dict(parts),
                arity=_arity(document.get("arity")),
            )
        if not isinstance(index["ep"], str):
            raise ValueError("ep is no text")  # noqa: TRY004 - the document is wrong, not the call
        return index["ep"], blobs, entries

    def _blob(self, document: Any) -> _Blob:
        offset, nbytes, sha256 = document["offset"], document["nbytes"], document["sha256"]
        if not all(isinstance(number, int) and number >= 0 for number in (offset, nbytes)):
            raise ValueError("a blob's offset and length are not numbers from 0")
        if offset + nbytes > self._data.nbytes:
            raise ValueError(
                f"a blob ends at byte {offset + nbytes}, of {self._data.nbytes}: truncated"
            )
        if not isinstance(sha256, str) or len(sha256) != _DIGEST_CHARACTERS:
            raise ValueError("a blob's sha256 is no digest")
        return _Blob(offset, nbytes, sha256)

    def _damaged(self, what: str) -> EpContextError:
        return EpContextError(f"{self._where} is damaged: {what}", ep_name=self._ep_name)


def _arity(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    inputs, outputs = value
    if not all(type(number) is int and number >= 0 for number in (inputs, outputs)):
        raise ValueError("arity is not two numbers from 0")
    return inputs, outputs


def map_context_file(
    path: Path, *, ep_name: str, mapped: MappedContext | None = None
) -> MappedContext:
    """Map a file of contexts, unless it is given as ``mapped``; EpContextError if that fails."""
    try:
        return mapped or map_context(path)
    except ModelFileError as error:
        raise EpContextError(
            f"the context file {quoted(path)} cannot be read: {error}", ep_name=ep_name
        ) from error


def open_context_file(path: Path, *, ep_name: str) -> ContextFile:
    """Map and read a context file; EpContextError if it is missing or not a context file."""
    return read_context_file(map_context_file(path, ep_name=ep_name), ep_name=ep_name)


def read_context_file(mapped: MappedContext, *, ep_name: str) -> ContextFile:
    """Read a context file that is already mapped."""
    where = f"the context file {quoted(mapped.path)}"
    if not mapped.is_same:  # the file was replaced meanwhile
        return ContextFile(mapped.data, ep_name=ep_name, where=where)
    return ContextFile(
        mapped.data,
        ep_name=ep_name,
        where=where,
        checked=CheckedBlobs(mapped.path, mapped.stamp),
        stamped_path=(mapped.path, mapped.stamp),
    )
