"""Write the files that ``ep_context_file`` reads, each in one step."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ortpkg.foundations.errors import EpContextWriteError, ModelFileError, quoted
from ortpkg.foundations.storage.context_file_mark import MAGIC, is_context_file
from ortpkg.foundations.storage.file_replacement import write_model_file
from ortpkg.runtime.ep_context.ep_context_file import (
    ALIGNMENT,
    HEADER_NBYTES,
    LENGTH_NBYTES,
    ContextEntry,
    Part,
)

#: Upper bound of an index entry's size without its name and descriptor.
_INDEX_NBYTES_PER_ENTRY = 2048


def write_context_file(path: Path, ep_name: str, entries: Sequence[ContextEntry]) -> None:
    """Write contexts to a file in one step, replacing an existing file.

    Raises:
        EpContextWriteError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_model_file(path, lambda file: file.writelines(context_chunks(ep_name, entries)))
    except (OSError, ModelFileError) as error:
        raise _write_error(path, ep_name, error) from error


def context_chunks(
    ep_name: str, entries: Sequence[ContextEntry], *, first_offset: int = 0
) -> Iterator[Part]:
    """Yield the bytes of a file with these contexts.

    The first part of the first entry begins at ``first_offset`` if the index leaves room for that.
    """
    numbers: dict[str, int] = {}
    digests: dict[int, str] = {}
    blobs: list[Part] = []
    indexed = []
    for entry in entries:
        parts = {}
        for name, data in entry.parts.items():
            digest = digests.get(id(data)) or hashlib.sha256(data).hexdigest()
            digests[id(data)] = digest
            if digest not in numbers:
                numbers[digest] = len(blobs)
                blobs.append(data)
            parts[name] = numbers[digest]
        arity = {} if entry.arity is None else {"arity": list(entry.arity)}
        indexed.append(
            {"name": entry.name, "descriptor": entry.descriptor.to_json(), "parts": parts, **arity}
        )
    lengths = [memoryview(blob).nbytes for blob in blobs]
    index, offsets = _index_with_offsets(ep_name, indexed, list(numbers), lengths, first_offset)
    yield (
        MAGIC
        + len(index).to_bytes(LENGTH_NBYTES, "little")
        + hashlib.sha256(index).digest()
        + index
    )
    reached = HEADER_NBYTES + len(index)
    for blob, offset, length in zip(blobs, offsets, lengths, strict=True):
        yield bytes(offset - reached)
        yield blob
        reached = offset + length


def create_context_file(path: Path, ep_name: str, chunks: Callable[[], Iterator[Part]]) -> bool:
    """Write a new file of contexts in one step.

    Return False if the very same file exists already.

    Raises:
        EpContextWriteError: the file cannot be written, or another file has the name, which other
            models may need.
    """
    try:
        if os.path.lexists(path):
            if _holds(path, chunks()):
                return False
            raise _name_taken_error(path, "holds other contexts", ep_name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_model_file(path, lambda file: file.writelines(chunks()), replaces=False)
    except (OSError, ModelFileError) as error:
        raise _write_error(path, ep_name, error) from error
    return True


def offset_past_index(entries: Sequence[ContextEntry]) -> int:
    """Return the usual offset of blobs, whatever the entries' parts, to plan offsets beforehand."""
    texts = sum(len(entry.name) + len(json.dumps(entry.descriptor.to_json())) for entry in entries)
    return _aligned(HEADER_NBYTES + 2 * texts + _INDEX_NBYTES_PER_ENTRY * len(entries))


def check_context_file_place(path: Path, ep_name: str, *, magic: bytes = MAGIC) -> None:
    """Raise EpContextWriteError if another kind of file has the name of a new context file.

    ``magic``: the first bytes of a context file.
    """
    if os.path.lexists(path) and not is_context_file(path, magic=magic):
        raise _name_taken_error(path, "is no context file", ep_name)


def _write_error(path: Path, ep_name: str, error: Exception) -> EpContextWriteError:
    return EpContextWriteError(
        f"the context file {quoted(path)} cannot be written: {error}", ep_name=ep_name
    )


def _name_taken_error(path: Path, why: str, ep_name: str) -> EpContextWriteError:
    return EpContextWriteError(
        f"{quoted(path)}, the name of the binary of {ep_name}, exists already and {why}; it is"
        " never written over: delete it, or send the context model to another folder with"
        " ep.context_file_path",
        ep_name=ep_name,
    )


def _holds(path: Path, chunks: Iterator[Part]) -> bool:
    """Return True if the file consists of exactly these bytes."""
    with path.open("rb") as file:
        return all(
            file.read(memoryview(chunk).nbytes) == chunk for chunk in chunks
        ) and not file.read(1)


def _index_with_offsets(
    ep_name: str,
    entries: Sequence[Mapping[str, Any]],
    digests: Sequence[str],
    lengths: Sequence[int],
    first_offset: int,
) -> tuple[bytes, list[int]]:
    """Return the index and the offsets of the blobs, which depend on each other."""
    first = max(ALIGNMENT, _aligned(first_offset))
    while True:
        offsets = []
        reached = first
        for length in lengths:
            offsets.append(reached)
            reached = _aligned(reached + length)
        blobs = [
            {"offset": offset, "nbytes": length, "sha256": digest}
            for offset, length, digest in zip(offsets, lengths, digests, strict=True)
        ]
        index = json.dumps(
            {"ep": ep_name, "blobs": blobs, "entries": list(entries)}, sort_keys=True
        ).encode()
        if HEADER_NBYTES + len(index) <= first:
            return index, offsets
        first = _aligned(HEADER_NBYTES + len(index))


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
