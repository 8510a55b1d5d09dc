"""Container in which onnxruntime's OpenVINO provider keeps its blobs.

::

    40 bytes   five numbers of 8 bytes, little-endian: "OVEP_BIN", version (1), length of this
               header, offset and length of the index
               index: BSON: {"version": "1.1.0", "producer": "...",
                             "blob_metadata_map": {PARTITION: {"data_offset", "size"}},
                             "weights_metadata_map": {WEIGHT: {"location", "data_offset", "size"}}}
               blobs, each at a multiple of 64 KiB from the start

Older releases of the provider keep the blob alone. Source: onnxruntime's
``core/providers/openvino`` (the layout), and files that onnxruntime-ep-openvino 1.8.1 made. That
provider reads the major version of the index only and passes over unknown keys, so that ortpkg adds
a key of its own: the descriptor of each blob, and its SHA-256.

Everything in a container comes from a stranger, and is checked against its length before it is
read.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from ortpkg.foundations.ep_names import OPENVINO_EP
from ortpkg.foundations.errors import EpContextError, quoted
from ortpkg.foundations.versions import release_of
from ortpkg.runtime.ep_context.context_form import ContextForm, ContextSource
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor, descriptor_from_json
from ortpkg.runtime.ep_context.ep_context_file import (
    MOST_ENTRIES,
    MOST_INDEX_NBYTES,
    ContextEntry,
    Part,
)
from ortpkg.runtime.providers.bson import BsonError, Value, read_document, write_document
from ortpkg.runtime.providers.openvino_requirements import (
    BLOB_MAGIC,
    blob_requirements,
    compatibility_info,
    required_release,
)

MAGIC = b"OVEP_BIN"
BLOB_PART = "blob"
_HEADER = struct.Struct("<8s4Q")
_VERSION = 1
_ALIGNMENT = 1 << 16
_INDEX_VERSION, _INDEX_MAJOR = "1.1.0", "1"
_BLOBS, _WEIGHTS, _OWN = "blob_metadata_map", "weights_metadata_map", "ortpkg"
_PRODUCER = "ortpkg"
_MOST_NAME_CHARACTERS = 4096
_RELEASE_PARTS = 2
#: One offset is as good as another while the index is measured: numbers have one length.
_ANY_OFFSET = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blob:
    """One blob, with ortpkg's notes on it, if ortpkg wrote the container."""

    offset: int
    nbytes: int
    sha256: str = ""
    descriptor: ContextDescriptor | None = None
    arity: tuple[int, int] | None = None


class OpenVinoContainer:
    """Blobs of one container.

    Raises:
        EpContextError: the container is damaged, of another version, or breaks a limit.
    """

    def __init__(self, data: memoryview, where: str) -> None:
        """Read the container's index.

        Args:
            data: the file or the payload.
            where: name of the file or payload, for messages.
        """
        self._data = data
        self._where = where
        try:
            self._blobs = self._read(data)
        except BsonError as error:
            raise self._damaged(f"its index is no BSON that is read here: {error}") from error
        except ValueError as error:
            raise self._damaged(str(error)) from error

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the partitions, in order."""
        return tuple(self._blobs)

    def entry(self, name: str) -> ContextEntry:
        """Return the blob of that partition; EpContextError if there is none."""
        blob = self._blobs.get(name)
        if blob is None:
            listed = ", ".join(map(quoted, list(self._blobs)[:5])) or "none"
            raise EpContextError(
                f"{self._where} has no blob of partition {quoted(name)}; it has {listed}",
                ep_name=OPENVINO_EP,
                source=OPENVINO_EP,
                partition_name=name,
            )
        data = self._data[blob.offset : blob.offset + blob.nbytes]
        entry = foreign_entry(name, data)
        if blob.sha256 and entry.digests[BLOB_PART] != blob.sha256:
            raise self._damaged(
                f"the blob of partition {quoted(name)} is not what was written (SHA-256 differs)"
            )
        if blob.descriptor is None:
            return entry
        return ContextEntry(
            name=name,
            descriptor=blob.descriptor,
            parts=entry.parts,
            digests=entry.digests,
            arity=blob.arity,
        )

    def _read(self, data: memoryview) -> Mapping[str, _Blob]:
        return self._blobs_of(_read_index(data))

    def _blobs_of(self, index: Mapping[str, Value]) -> Mapping[str, _Blob]:
        if index.get(_WEIGHTS):
            raise ValueError(
                f"its blobs take weights from other files ({_WEIGHTS}), which only the provider"
                " reads"
            )
        records, notes = index.get(_BLOBS), index.get(_OWN, {})
        if not isinstance(records, dict) or len(records) > MOST_ENTRIES:
            raise ValueError(
                f"{_BLOBS} of its index is no document of at most {MOST_ENTRIES} blobs"
            )
        noted = notes if isinstance(notes, dict) else {}
        return MappingProxyType(
            {name: self._blob(name, record, noted.get(name)) for name, record in records.items()}
        )

    def _blob(self, name: str, record: Value, noted: Value) -> _Blob:
        if not name or len(name) > _MOST_NAME_CHARACTERS:
            raise ValueError(f"a blob has a name of {len(name)} characters")
        offset, nbytes = (
            (record.get("data_offset"), record.get("size"))
            if isinstance(record, dict)
            else (None, None)
        )
        if (
            type(offset) is not int
            or type(nbytes) is not int
            or offset < _HEADER.size
            or nbytes < 0
        ):
            raise ValueError(
                f"the place of blob {quoted(name)} is no offset behind the header and no size"
            )
        if offset + nbytes > self._data.nbytes:
            raise ValueError(
                f"blob {quoted(name)} would end at byte {offset + nbytes}, of {self._data.nbytes}:"
                " truncated"
            )
        blob = _Blob(offset=offset, nbytes=nbytes)
        return _with_notes(blob, name, noted) if isinstance(noted, dict) else blob

    def _damaged(self, what: str) -> EpContextError:
        return EpContextError(
            f"{self._where} is damaged: {what}", ep_name=OPENVINO_EP, source=OPENVINO_EP
        )


def _read_index(data: memoryview) -> Mapping[str, Value]:
    """Return a container's index; ValueError or BsonError if it is damaged."""
    if data.nbytes < _HEADER.size:
        raise ValueError(f"it has {data.nbytes} bytes, fewer than its header")
    magic, version, header_nbytes, start, length = _HEADER.unpack(data[: _HEADER.size])
    if (magic, version, header_nbytes) != (MAGIC, _VERSION, _HEADER.size):
        raise ValueError(
            f"it begins with {quoted(magic)}, version {version}, and a header of"
            f" {header_nbytes} bytes; read are {quoted(MAGIC)}, version {_VERSION} and"
            f" {_HEADER.size} bytes"
        )
    if length > MOST_INDEX_NBYTES:
        raise ValueError(f"its index would have {length} bytes, of at most {MOST_INDEX_NBYTES}")
    if start < _HEADER.size or start + length > data.nbytes:
        raise ValueError(
            f"its index would lie at bytes {start} to {start + length}, of {data.nbytes}"
        )
    index = read_document(data[start : start + length])
    version = index.get("version")
    if not isinstance(version, str) or version.partition(".")[0] != _INDEX_MAJOR:
        raise ValueError(f"its index has version {quoted(version)}; read is {_INDEX_MAJOR}.x")
    return index


def _weight_files(data: memoryview, label: str) -> Mapping[str, int]:
    try:
        weights = _read_index(data).get(_WEIGHTS) or {}
        if not isinstance(weights, dict) or len(weights) > MOST_ENTRIES:
            raise ValueError(f"{_WEIGHTS} of its index is no document of at most {MOST_ENTRIES}")
        files: dict[str, int] = {}
        for name, record in weights.items():
            location, end = _end_of_weight(name, record)
            files[location] = max(files.get(location, 0), end)
    except (BsonError, ValueError) as error:
        raise EpContextError(
            f"{label} is damaged: {error}", ep_name=OPENVINO_EP, source=OPENVINO_EP
        ) from error
    return files


def _end_of_weight(name: str, record: Value) -> tuple[str, int]:
    """Return a weight's file, and the offset in it at which the weight ends."""
    fields = record if isinstance(record, dict) else {}
    location, offset, nbytes = (fields.get(key) for key in ("location", "data_offset", "size"))
    if not isinstance(location, str) or type(offset) is not int or type(nbytes) is not int:
        raise ValueError(f"the place of weight {quoted(name)} is no location, offset and size")
    if offset < 0 or nbytes < 0:
        raise ValueError(f"the place of weight {quoted(name)} is below 0")
    return location, offset + nbytes


class _BareBlob:
    """File or payload that is one blob."""

    def __init__(self, data: memoryview, name: str) -> None:
        self._data = data
        self._name = name

    @property
    def names(self) -> tuple[str, ...]:
        return (self._name,)

    def entry(self, name: str) -> ContextEntry:
        return foreign_entry(name, self._data)


def foreign_entry(name: str, blob: memoryview) -> ContextEntry:
    """Return the context of a blob that somebody else made, with what the blob states.

    The rest of its descriptor is empty.
    """
    descriptor = ContextDescriptor(
        ep=OPENVINO_EP,
        sdk_version=required_release(blob_requirements(blob)),
        device="CPU" if bytes(blob[: len(BLOB_MAGIC)]) == BLOB_MAGIC else "",
    )
    return ContextEntry(
        name=name,
        descriptor=descriptor,
        parts=MappingProxyType({BLOB_PART: blob}),
        digests=MappingProxyType({BLOB_PART: hashlib.sha256(blob).hexdigest()}),
        is_foreign=True,
    )


def container_chunks(entries: Sequence[ContextEntry]) -> Iterator[Part]:
    """Yield the bytes of a container of contexts' blobs, for onnxruntime's OpenVINO provider."""
    blobs = {entry.name: memoryview(_whole_blob(entry)) for entry in entries}
    notes: dict[str, Value] = {
        entry.name: {
            "descriptor": json.dumps(entry.descriptor.to_json(), sort_keys=True),
            "sha256": hashlib.sha256(blobs[entry.name]).hexdigest(),
            **(
                {} if entry.arity is None else {"inputs": entry.arity[0], "outputs": entry.arity[1]}
            ),
        }
        for entry in entries
    }
    first = _aligned(_HEADER.size + len(_index(blobs, notes, _ANY_OFFSET)))
    index = _index(blobs, notes, first)
    yield _HEADER.pack(MAGIC, _VERSION, _HEADER.size, _HEADER.size, len(index))
    yield index
    yield bytes(first - _HEADER.size - len(index))
    for blob in blobs.values():
        yield blob
        yield bytes(_aligned(blob.nbytes) - blob.nbytes)


def _whole_blob(entry: ContextEntry) -> Part:
    if BLOB_PART not in entry.parts:
        raise EpContextError(
            f"the context of partition {quoted(entry.name)} has its weights in common with others,"
            f" which onnxruntime's {OPENVINO_EP} does not read: compile the source model for"
            " onnxruntime",
            ep_name=OPENVINO_EP,
            source=OPENVINO_EP,
            partition_name=entry.name,
        )
    return entry.parts[BLOB_PART]


def _index(blobs: Mapping[str, memoryview], notes: dict[str, Value], offset: int) -> bytes:
    records: dict[str, Value] = {}
    for name, blob in blobs.items():
        records[name] = {"data_offset": offset, "size": blob.nbytes}
        offset += _aligned(blob.nbytes)
    return write_document(
        {_BLOBS: records, _OWN: notes, "producer": _PRODUCER, "version": _INDEX_VERSION}
    )


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _with_notes(blob: _Blob, name: str, noted: Mapping[str, Value]) -> _Blob:
    """Return ``blob`` with ortpkg's notes; ValueError if they are not what ortpkg writes."""
    sha256, text = noted.get("sha256"), noted.get("descriptor")
    if not isinstance(sha256, str) or not isinstance(text, str):
        raise ValueError(  # noqa: TRY004
            f"what ortpkg noted of blob {quoted(name)} lacks its SHA-256 or its descriptor"
        )
    inputs, outputs = noted.get("inputs"), noted.get("outputs")
    arity = (inputs, outputs) if type(inputs) is int and type(outputs) is int else None
    try:
        # A container has whole blobs only, whatever its notes say.
        descriptor = replace(descriptor_from_json(json.loads(text)), weights_source="")
    except RecursionError as error:
        raise ValueError(f"the descriptor of blob {quoted(name)} is no JSON") from error
    return replace(blob, sha256=sha256, descriptor=descriptor, arity=arity)


def _read_container(data: memoryview, where: str, name: str) -> ContextSource:
    del name
    return OpenVinoContainer(data, where)


def _read_bare(data: memoryview, where: str, name: str) -> ContextSource:
    del where
    return _BareBlob(data, name)


def _sdk_version(version: str) -> str:
    """Return the major and minor number of a version, as the provider writes them."""
    return ".".join(release_of(version).split(".")[:_RELEASE_PARTS])


def _compatibility_info(parts: Mapping[str, Part]) -> str:
    requirements = blob_requirements(parts.get(BLOB_PART, b""))
    return compatibility_info(requirements, _PRODUCER) if requirements else ""


OPENVINO_FORM = ContextForm(
    magic=MAGIC,
    read=_read_container,
    read_bare=_read_bare,
    chunks=container_chunks,
    sdk_version=_sdk_version,
    compatibility_info=_compatibility_info,
    weight_files=_weight_files,
)
