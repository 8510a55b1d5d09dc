"""Write the files that ``ep_context_file`` reads, each in one step."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ortpkg.ep_context.ep_context_file import (
    ALIGNMENT,
    HEADER_NBYTES,
    LENGTH_NBYTES,
    MAGIC,
    ContextEntry,
    Part,
    is_context_file,
)
from ortpkg.errors import EpContextWriteError, ModelFileError, quoted
from ortpkg.storage.file_replacement import write_model_file

#: More than the index says of one entry beside its name and descriptor.
_INDEX_NBYTES_PER_ENTRY = 2048


def write_context_file(path: Path, ep_name: str, entries: Sequence[ContextEntry]) -> None:
    """Write the contexts to a file, in place of what is there, in one step.

    EpContextWriteError where that fails.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_model_file(path, lambda file: file.writelines(context_chunks(ep_name, entries)))
    except (OSError, ModelFileError) as error:
        raise _unwritten(path, ep_name, error) from error


def context_chunks(
    ep_name: str, entries: Sequence[ContextEntry], *, first_offset: int = 0
) -> Iterator[Part]:
    """The bytes of a file with these contexts.

    The first part of the first entry begins at ``first_offset``, where the index leaves room for
    that.
    """
    numbers: dict[str, int] = {}
    seen: dict[int, str] = {}
    blobs: list[Part] = []
    indexed = []
    for entry in entries:
        parts = {}
        for name, data in entry.parts.items():
            digest = seen.get(id(data)) or hashlib.sha256(data).hexdigest()
            seen[id(data)] = digest
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
    """Write a new file of contexts, in one step.

    False where the very same file is there already, and stays.

    Raises EpContextWriteError where that fails, or another file has the name, which may be what
    other models need.
    """
    try:
        if os.path.lexists(path):
            if _holds(path, chunks()):
                return False
            raise _taken(path, "holds other contexts", ep_name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_model_file(path, lambda file: file.writelines(chunks()), replaces=False)
    except (OSError, ModelFileError) as error:
        raise _unwritten(path, ep_name, error) from error
    return True


def offset_past_index(entries: Sequence[ContextEntry]) -> int:
    """Where blobs usually begin, whatever the entries' parts: for who plans places beforehand."""
    texts = sum(len(entry.name) + len(json.dumps(entry.descriptor.to_json())) for entry in entries)
    return _aligned(HEADER_NBYTES + 2 * texts + _INDEX_NBYTES_PER_ENTRY * len(entries))


def check_context_file_place(path: Path, ep_name: str, *, magic: bytes = MAGIC) -> None:
    """Raise EpContextWriteError where what is no context file has the name of a new one.

    ``magic``: the first bytes of such a file.
    """
    if os.path.lexists(path) and not is_context_file(path, magic=magic):
        raise _taken(path, "is no context file", ep_name)


def _unwritten(path: Path, ep_name: str, error: Exception) -> EpContextWriteError:
    return EpContextWriteError(
        f"the context file {quoted(path)} cannot be written: {error}", ep_name=ep_name
    )


def _taken(path: Path, why: str, ep_name: str) -> EpContextWriteError:
    return EpContextWriteError(
        f"{quoted(path)}, the name of the binary of {ep_name}, exists already and {why}; it is"
        " never written over: delete it, or send the context model to another folder with"
        " ep.context_file_path",
        ep_name=ep_name,
    )


def _holds(path: Path, chunks: Iterator[Part]) -> bool:
    """Whether the file consists of exactly these bytes."""
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
    """The index, and where the blobs lie: offsets depend on the index's length, and it on them."""
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
