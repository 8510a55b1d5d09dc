"""List the tensors of a model file and the place of each one's bytes, without reading weights.

Models come from strangers, so every range is checked against the files' sizes: any range of a
:class:`ModelWeights` can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path, PurePosixPath

import onnx

from ortpkg.authoring.model_facts import read_model_facts
from ortpkg.authoring.variant_files import is_linked_data, why_not_a_data_file, why_not_long_enough
from ortpkg.foundations.errors import ModelFileError, quoted
from ortpkg.foundations.storage.composed_file import FileRange
from ortpkg.graph.byte_source import MappedFile
from ortpkg.graph.external_data import external_data_info, is_external
from ortpkg.graph.tensor_messages import ModelMessage, TensorMessage
from ortpkg.graph.types import ElementType, stored_nbytes
from ortpkg.graph.value_types import element_type_from_number
from ortpkg.graph.wire_format import WireFormatError

#: Keys of TensorProto.external_data that ONNX defines (docs/ExternalData.md). With any other, such
#: as onnxruntime's "prepacked_...", the file holds more than the tensor's own range.
_KNOWN_KEYS = frozenset({"location", "offset", "length", "checksum"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """Tensor and the bytes of its data: in a data file, or (``raw_data``) in the model itself.

    Attributes:
        location: of its data file as the model states it; None for a tensor in the model.
    """

    message: TensorMessage
    data: FileRange
    location: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWeights:
    """Model file with the places of its weights.

    Attributes:
        path: path to the model file.
        data_folder: folder that locations of external data are relative to.
        message: its content; it keeps the file mapped as long as it lives.
        external: tensors in data files.
        embedded: initializers whose ``raw_data`` is in the model.
        opaque: data files that cannot be taken apart: ranges in them overlap, or they hold data
            that only some reader knows.
        context_locations: files of EPContext nodes, relative to the model's folder.
    """

    path: Path
    data_folder: Path
    message: ModelMessage
    external: tuple[StoredTensor, ...]
    embedded: tuple[StoredTensor, ...]
    opaque: frozenset[Path]
    context_locations: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Folder of the model file; locations of contexts are relative to it."""
        return self.path.parent

    @property
    def data_files(self) -> tuple[Path, ...]:
        """Every data file once, in order of appearance."""
        return tuple(dict.fromkeys(tensor.data.path for tensor in self.external))

    @property
    def context_files(self) -> tuple[Path, ...]:
        """Files of compiled contexts that the model names; they may not exist."""
        return tuple(self.folder / location for location in self.context_locations)

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that the model needs, itself first."""
        return tuple(dict.fromkeys((self.path, *self.data_files, *self.context_files)))


def read_model_weights(
    path: Path, *, data_folder: Path | None = None, is_bare: bool = False
) -> ModelWeights:
    """Find the weights of a model file.

    Args:
        path: path to the model file.
        data_folder: the folder of its data files; None for its own.
        is_bare: it belongs to no package, so that links beside a linked model are followed as in a
            session.

    Raises:
        ModelError: it is not a model, a data file is missing, too short or behind a link, or a
            tensor's length does not match its type and shape.
    """
    bare_model = path if is_bare else None
    # refuses files that are no model, and every location outside the folder
    facts = read_model_facts(path)
    try:
        message = ModelMessage(MappedFile(path).mapping())
    except WireFormatError as error:
        raise ModelFileError(f"{quoted(path)} cannot be edited: {error}") from error
    folder = data_folder or path.parent
    external = tuple(_external_tensors(path, folder, message.tensors, bare_model))
    contexts = tuple(
        PurePosixPath(context_file).as_posix() for context_file in facts.signature.context_files
    )
    for location in contexts:
        _data_file(path.parent, location, 1, bare_model)
    return ModelWeights(
        path=path,
        data_folder=folder,
        message=message,
        external=external,
        embedded=tuple(_embedded_tensors(path, message.tensors)),
        opaque=_opaque_files(external),
        context_locations=contexts,
    )


def _external_tensors(
    path: Path, folder: Path, tensors: Iterable[TensorMessage], bare_model: Path | None
) -> Iterator[StoredTensor]:
    for tensor in tensors:
        if not is_external(tensor.header):
            continue
        info = external_data_info(tensor.header)
        needed = _stored_nbytes(tensor.header)
        if info.length not in (None, needed):
            raise ModelFileError(
                f"tensor {quoted(tensor.header.name)} of {quoted(path)} has {info.length} bytes of"
                f" external data; its type and shape need {needed}"
            )
        location = PurePosixPath(info.location).as_posix()
        data_file = _data_file(folder, location, info.offset + needed, bare_model)
        yield StoredTensor(
            message=tensor,
            data=FileRange(data_file, info.offset, needed),
            location=info.location,
        )


def _embedded_tensors(path: Path, tensors: Iterable[TensorMessage]) -> Iterator[StoredTensor]:
    for tensor in tensors:
        if not tensor.is_initializer or tensor.raw is None or is_external(tensor.header):
            continue
        if tensor.raw[1] == _stored_nbytes(tensor.header):
            yield StoredTensor(message=tensor, data=FileRange(path, *tensor.raw), location=None)


def _stored_nbytes(tensor: onnx.TensorProto) -> int:
    where = f"tensor {quoted(tensor.name)}"
    element_type = element_type_from_number(tensor.data_type, where)
    if element_type in (ElementType.UNDEFINED, ElementType.STRING) or any(
        size < 0 for size in tensor.dims
    ):
        raise ModelFileError(
            f"{where} has raw or external data, but no type and shape that can have it"
        )
    return stored_nbytes(element_type, prod(tensor.dims))


def _data_file(folder: Path, location: str, nbytes: int, bare_model: Path | None) -> Path:
    """Return the path to a data file of at least ``nbytes``; ``bare_model`` may have links."""
    if bare_model is not None and is_linked_data(folder, location, bare_model):
        path = (folder / location).resolve()
        reason = why_not_long_enough(path, nbytes)
    else:
        path = folder / location
        reason = why_not_a_data_file(folder, location, nbytes)
    if reason:
        raise ModelFileError(f"data file {quoted(location)} in {quoted(folder)} {reason}")
    return path


def _opaque_files(tensors: Iterable[StoredTensor]) -> frozenset[Path]:
    ranges: dict[Path, set[tuple[int, int]]] = {}
    opaque = set()
    for tensor in tensors:
        ranges.setdefault(tensor.data.path, set()).add((tensor.data.offset, tensor.data.nbytes))
        if not {entry.key for entry in tensor.message.header.external_data} <= _KNOWN_KEYS:
            opaque.add(tensor.data.path)
    # Overlapping ranges, each copied, could make a small file a huge one.
    return frozenset(
        opaque | {path for path, file_ranges in ranges.items() if _overlap(file_ranges)}
    )


def _overlap(ranges: Iterable[tuple[int, int]]) -> bool:
    """Return True if two different ranges (offset, length) have a byte in common."""
    end = 0
    for offset, nbytes in sorted(ranges):
        if nbytes and offset < end:
            return True
        end = max(end, offset + nbytes)
    return False


def relative_to_folder(path: Path, folder: Path) -> str:
    """Return ``path`` as a location for a model in ``folder``."""
    return path.relative_to(folder).as_posix()


def by_file(tensors: Iterable[StoredTensor]) -> Mapping[Path, list[StoredTensor]]:
    """Group tensors by the file of their data, in order of appearance."""
    tensors_of_file: dict[Path, list[StoredTensor]] = {}
    for tensor in tensors:
        tensors_of_file.setdefault(tensor.data.path, []).append(tensor)
    return tensors_of_file
