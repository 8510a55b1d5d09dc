"""Storage of a written model's initializers: in the model, or in files that the caller chooses."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import onnx

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.foundations.storage.file_replacement import write_model_file
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.proto_walk import walk_graphs
from ortpkg.runtime.session.values.ort_value import OrtValue

#: Alignment of data in files, in bytes, for mapping it.
_ALIGNMENT = 4096


@dataclass(frozen=True, slots=True)
class OrtExternalInitializerInfo:
    """Location of an initializer's data.

    Attributes:
        filepath: the file, relative to its model's folder.
        file_offset, byte_size: offset of the data in the file, and its length, in bytes.
    """

    filepath: str
    file_offset: int
    byte_size: int


#: (name, value, location in the source model or None) → location for the written model; None means
#: in the model itself.
LocateInitializer = Callable[
    [str, OrtValue, OrtExternalInitializerInfo | None], OrtExternalInitializerInfo | None
]


def external_locations(path: Path) -> dict[str, OrtExternalInitializerInfo]:
    """Return the locations of initializers whose data lies outside of a model's file."""
    locations = {}
    for tensor in _tensors(onnx.load(str(path), load_external_data=False)):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            locations[tensor.name] = OrtExternalInitializerInfo(
                entries.get("location", ""),
                int(entries.get("offset", 0)),
                int(entries.get("length", 0)),
            )
    return locations


def place_in_file(path: Path, file_name: str, *, largest_inline_nbytes: int) -> None:
    """Move the data of larger initializers of a model into a file of its folder.

    Raises:
        UsageError: the file lies outside the model's folder.
    """
    location = _relative(path, file_name)
    model = onnx.load(str(path), load_external_data=False)
    moved = [tensor for tensor in _tensors(model) if _inline_nbytes(tensor) > largest_inline_nbytes]

    def write(file: BinaryIO) -> None:
        for tensor in moved:
            data = onnx.numpy_helper.to_array(tensor).tobytes()
            file.write(b"\0" * (-file.tell() % _ALIGNMENT))
            _point(tensor, OrtExternalInitializerInfo(location, file.tell(), len(data)))
            file.write(data)

    if moved:
        target = path.parent / location
        target.parent.mkdir(parents=True, exist_ok=True)
        write_model_file(target, write)
        write_model_file(path, lambda file: file.write(model.SerializeToString()))


def place_initializers(
    path: Path,
    locate: LocateInitializer,
    source_locations: Mapping[str, OrtExternalInitializerInfo],
) -> None:
    """Ask ``locate`` where to store each initializer of a model, and record that in the model.

    Raises:
        UsageError: a location outside of the model's folder.
        TypeError: an answer that is not a location.
    """
    model = onnx.load(str(path), load_external_data=False)
    for tensor in _tensors(model):
        value = OrtValue(onnx.numpy_helper.to_array(tensor))
        target: object = locate(tensor.name, value, source_locations.get(tensor.name))
        if target is None:
            continue
        if not isinstance(target, OrtExternalInitializerInfo):
            raise TypeError(
                f"the place of {tensor.name!r} is an OrtExternalInitializerInfo or None, not"
                f" {target!r}"
            )
        location = _relative(path, target.filepath)
        _point(tensor, OrtExternalInitializerInfo(location, target.file_offset, target.byte_size))
    write_model_file(path, lambda file: file.write(model.SerializeToString()))


def _tensors(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    return [
        tensor for graph in walk_graphs(model, limits=ModelLimits()) for tensor in graph.initializer
    ]


def _inline_nbytes(tensor: onnx.TensorProto) -> int:
    """Return the bytes of a tensor's data in the model.

    0 for texts, which cannot lie elsewhere, and for data that already does.
    """
    if (
        tensor.data_location == onnx.TensorProto.EXTERNAL
        or tensor.data_type == onnx.TensorProto.STRING
    ):
        return 0
    return len(tensor.raw_data) or onnx.numpy_helper.to_array(tensor).nbytes


def _point(tensor: onnx.TensorProto, target: OrtExternalInitializerInfo) -> None:
    for field in (
        "raw_data",
        "float_data",
        "int32_data",
        "int64_data",
        "double_data",
        "uint64_data",
        "external_data",
    ):
        tensor.ClearField(field)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entries = {
        "location": target.filepath,
        "offset": target.file_offset,
        "length": target.byte_size,
    }
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))


def _relative(path: Path, file_name: str) -> str:
    """Return ``file_name`` relative to the folder of the model at ``path``."""
    folder = path.parent.absolute()
    target = Path(os.path.normpath(folder / file_name))
    if target == path.absolute() or not target.is_relative_to(folder) or target == folder:
        raise UsageError(
            f"{quoted(file_name)} is no file in the folder of the compiled model ({quoted(folder)})"
            " or below it, where alone a model can have its data"
        )
    return target.relative_to(folder).as_posix()
