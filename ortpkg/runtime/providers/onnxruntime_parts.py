"""Splits models that onnxruntime made into parts of a context: the message, and large weights.

onnxruntime leaves unchanged weights in the original files. A context has to stand alone, so these
weights become parts of it; they are mapped, not copied, until the context is written. When it is
loaded, onnxruntime reads the weights from the context's file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ortpkg.foundations.errors import quoted
from ortpkg.graph.byte_source import MappedFile
from ortpkg.graph.external_data import external_data_info
from ortpkg.graph.types import PACKED_BITS
from ortpkg.runtime.ep_context.ep_context_checks import PartsFile
from ortpkg.runtime.providers.native_library import (
    NativeModel,
    NativeWeight,
    Part,
    read_signature,
    replaced_file_error,
    required_part,
    signature_part,
)

_MODEL, _WEIGHT = "model", "weight:"


def parts_of_model(data: bytes, source: NativeModel) -> dict[str, Part]:
    """Return the parts of a model for a context; large weights are mapped from their files.

    Args:
        data: the message of a model that onnxruntime has optimized or compiled.
        source: the model that it was made from; ``data`` names the same files.

    Raises:
        ModelFileError: a file with weights was replaced.
    """
    signature = signature_part(source.inputs, source.outputs)
    if not source.weights_nbytes:
        return {_MODEL: data, **signature}
    proto = onnx.ModelProto.FromString(data)
    parts: dict[str, Part] = {}
    files: dict[str, MappedFile] = {}
    for tensor, _ in _external_tensors(proto.graph):
        name = f"{_WEIGHT}{len(parts)}"
        part = parts[name] = _bytes_of(tensor, source, files)
        _place(tensor, name, 0, part.nbytes)
    return {_MODEL: proto.SerializeToString(), **signature, **parts}


def model_of_parts(parts: Mapping[str, Part], file: PartsFile | None) -> NativeModel:
    """Return the model of the parts that :func:`parts_of_model` made.

    Args:
        parts: parts of the context.
        file: file that the parts are mapped from; None if they are in memory.

    Raises:
        ValueError: the parts are no such model.
    """
    inputs, outputs = read_signature(parts)
    data = bytes(required_part(parts, _MODEL))
    model = NativeModel(data=data, inputs=inputs, outputs=outputs)
    if not any(name.startswith(_WEIGHT) for name in parts):
        return model
    if file is not None and not file.is_same:  # gone since it was mapped
        file = None
    try:
        proto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise ValueError("the model in the context is none") from error
    weights: dict[str, NativeWeight] = {}
    for tensor, is_of_main_graph in _external_tensors(proto.graph):
        name = _location_of(tensor)
        if not name.startswith(_WEIGHT):
            raise ValueError(f"the model in the context has a weight in {quoted(name)}")
        part = memoryview(required_part(parts, name)).cast("B")
        if file is not None and name in file.offsets:
            _place(tensor, file.path.name, file.offsets[name], part.nbytes)
        elif is_of_main_graph and _has_whole_elements(tensor, part):
            weights[tensor.name] = NativeWeight(
                element_type=tensor.data_type, shape=tuple(tensor.dims), data=part
            )
        else:
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = bytes(part)
    return replace(
        model,
        data=proto.SerializeToString(),
        weights=weights,
        folder="" if file is None else str(file.path.parent.absolute()),
        files={} if file is None else {str(file.path.absolute()): file.stamp},
    )


def _has_whole_elements(tensor: onnx.TensorProto, part: memoryview) -> bool:
    """Return True if onnxruntime takes the weight as an OrtValue: its elements are not packed."""
    count = prod(tensor.dims)
    is_packed = tensor.data_type in {int(element_type) for element_type in PACKED_BITS}
    return not is_packed and count > 0 and part.nbytes in {count * width for width in (1, 2, 4, 8)}


def _external_tensors(
    graph: onnx.GraphProto, *, is_main: bool = True
) -> Iterator[tuple[onnx.TensorProto, bool]]:
    """Yield each initializer with external data, and True for one of the main graph."""
    for tensor in graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            yield tensor, is_main
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _external_tensors(inner, is_main=False)


def _bytes_of(
    tensor: onnx.TensorProto, source: NativeModel, files: dict[str, MappedFile]
) -> memoryview:
    """Return a weight's bytes, mapped from a file of ``source``; ``files`` keeps the mappings."""
    info = external_data_info(tensor)
    path = Path(source.folder, info.location)
    if info.location not in files:
        files[info.location] = MappedFile(path)
        stamp = source.files.get(str(path))
        if stamp is None or not stamp.is_same_content(files[info.location].stamp):
            raise replaced_file_error(str(path))
    nbytes = info.length or 0
    return files[info.location].array(info.offset, nbytes).data


def _place(tensor: onnx.TensorProto, location: str, offset: int, nbytes: int) -> None:
    del tensor.external_data[:]
    for key, value in (("location", location), ("offset", offset), ("length", nbytes)):
        tensor.external_data.add(key=key, value=str(value))


def _location_of(tensor: onnx.TensorProto) -> str:
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
