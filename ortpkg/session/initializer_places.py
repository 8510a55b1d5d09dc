"""Where a written model keeps its initializers: in itself, or in files that the caller chooses."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import onnx

from ortpkg.errors import UsageError, quoted
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.proto_walk import walk_graphs
from ortpkg.session.ort_value import OrtValue
from ortpkg.storage.file_replacement import write_model_file

#: Data in files begins at multiples of this, as mapping it wants.
_ALIGNMENT = 4096


@dataclass(frozen=True, slots=True)
class OrtExternalInitializerInfo:
    """The place of an initializer's data.

    Attributes:
        filepath: the file, relative to its model's folder.
        file_offset, byte_size: where in it the data begins, and how long it is.
    """

    filepath: str
    file_offset: int
    byte_size: int


#: (name, value, place in the source model or None) → place in the written model, None: in the model
#: itself.
LocateInitializer = Callable[
    [str, OrtValue, OrtExternalInitializerInfo | None], OrtExternalInitializerInfo | None
]


def stated_places(path: Path) -> dict[str, OrtExternalInitializerInfo]:
    """The places that a model states for initializers whose data lies in other files."""
    found = {}
    for tensor in _tensors(onnx.load(str(path), load_external_data=False)):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            found[tensor.name] = OrtExternalInitializerInfo(
                entries.get("location", ""),
                int(entries.get("offset", 0)),
                int(entries.get("length", 0)),
            )
    return found


def place_in_file(path: Path, file_name: str, *, largest_inline_nbytes: int) -> None:
    """Moves the data of larger initializers of a model into a file of its folder.

    UsageError for one outside it.
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
    path: Path, locate: LocateInitializer, source_places: Mapping[str, OrtExternalInitializerInfo]
) -> None:
    """Asks for each initializer of a model where its data shall lie, and has the model say so.

    Raises UsageError for a place outside of the model's folder; TypeError for an answer that is no
    place.
    """
    model = onnx.load(str(path), load_external_data=False)
    for tensor in _tensors(model):
        value = OrtValue(onnx.numpy_helper.to_array(tensor))
        place: object = locate(tensor.name, value, source_places.get(tensor.name))
        if place is None:
            continue
        if not isinstance(place, OrtExternalInitializerInfo):
            raise TypeError(
                f"the place of {tensor.name!r} is an OrtExternalInitializerInfo or None, not"
                f" {place!r}"
            )
        location = _relative(path, place.filepath)
        _point(tensor, OrtExternalInitializerInfo(location, place.file_offset, place.byte_size))
    write_model_file(path, lambda file: file.write(model.SerializeToString()))


def _tensors(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    return [
        tensor for graph in walk_graphs(model, limits=ModelLimits()) for tensor in graph.initializer
    ]


def _inline_nbytes(tensor: onnx.TensorProto) -> int:
    """Bytes of the data that lies in the model.

    0 for what cannot lie elsewhere (texts), or does already.
    """
    if (
        tensor.data_location == onnx.TensorProto.EXTERNAL
        or tensor.data_type == onnx.TensorProto.STRING
    ):
        return 0
    return len(tensor.raw_data) or onnx.numpy_helper.to_array(tensor).nbytes


def _point(tensor: onnx.TensorProto, place: OrtExternalInitializerInfo) -> None:
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
    stated = {"location": place.filepath, "offset": place.file_offset, "length": place.byte_size}
    for key, value in stated.items():
        tensor.external_data.add(key=key, value=str(value))


def _relative(path: Path, file_name: str) -> str:
    """``file_name`` as a model at ``path`` may state it."""
    folder = path.parent.absolute()
    target = Path(os.path.normpath(folder / file_name))
    if target == path.absolute() or not target.is_relative_to(folder) or target == folder:
        raise UsageError(
            f"{quoted(file_name)} is no file in the folder of the compiled model ({quoted(folder)})"
            " or below it, where alone a model can have its data"
        )
    return target.relative_to(folder).as_posix()
