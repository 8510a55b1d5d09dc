"""Reads a ModelProto from a path, bytes or a message, without copying its big weights.

Nothing is interpreted yet.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ortpkg.foundations.errors import ModelFileError, quoted
from ortpkg.graph.byte_source import ByteSource, MappedFile, MemoryBytes
from ortpkg.graph.foreign_models import foreign_model
from ortpkg.graph.load_control import poll_load
from ortpkg.graph.message_cost import NBYTES_PER_BYTE, charge_message
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.wire_format import WireFormatError, cut_weights

ModelSource = str | os.PathLike[str] | bytes | onnx.ModelProto


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A parsed model message without the weights that were cut out of it.

    Attributes:
        proto: the message; initializers in ``spans`` lack their ``raw_data``.
        spans: index into ``proto.graph.initializer`` → (offset, length) of its ``raw_data`` in
            ``source``.
        source: the bytes of the model; None if the caller gave a message.
        path: the model's file, if there is one.
    """

    proto: onnx.ModelProto
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    source: ByteSource | None = None
    path: Path | None = None

    @property
    def name(self) -> str:
        """The name of the model in messages."""
        return quoted(self.path) if self.path is not None else "the model"


def read_model_file(source: ModelSource, *, limits: ModelLimits) -> ModelFile:
    """Parse the message, without external data.

    Raises:
        ModelNotFoundError: if there is no such file.
        ModelFileError: if it is empty, too large, truncated, not ONNX, or contains no graph.
    """
    if isinstance(source, onnx.ModelProto):
        model_file = ModelFile(proto=source)
    elif isinstance(source, bytes):
        _check_size(len(source), "the model", limits)
        model_file = _parse(memoryview(source), MemoryBytes(source) if source else None, None)
    else:
        path = Path(source)
        file = MappedFile(path)
        _check_size(file.nbytes, quoted(path), limits)
        model_file = _parse(file.mapping(), file, path)
    _check_is_model(model_file)
    return model_file


def _check_size(nbytes: int, name: str, limits: ModelLimits) -> None:
    if nbytes == 0:
        raise ModelFileError(f"{name} is empty; an ONNX model was expected")
    if nbytes > limits.model_nbytes:
        raise ModelFileError(
            f"{name} has {nbytes} bytes; an ONNX file may have at most {limits.model_nbytes}, "
            "larger weights belong into external data"
        )


def _parse(data: memoryview, source: ByteSource | None, path: Path | None) -> ModelFile:
    name = quoted(path) if path is not None else "the model"
    try:
        cut = cut_weights(data)
        poll_load(NBYTES_PER_BYTE * cut.nbytes)
        message = cut.message()
        charge_message(message)
        proto = onnx.ModelProto.FromString(message)
    except (WireFormatError, DecodeError) as error:
        if path is not None and (foreign := foreign_model(path)):
            raise ModelFileError(f"{name} is {foreign}") from error
        raise ModelFileError(
            f"{name} is not an ONNX model, or is truncated: {quoted(error)}"
        ) from error
    return ModelFile(proto=proto, spans=cut.spans, source=source, path=path)


def _check_is_model(model_file: ModelFile) -> None:
    """Check for parts that every model has: almost any short text parses as some message."""
    proto = model_file.proto
    if not proto.HasField("graph"):
        raise ModelFileError(f"{model_file.name} is not an ONNX model: it holds no graph")
    if proto.ir_version < 1:
        raise ModelFileError(f"{model_file.name} is not an ONNX model: it states no IR version")
    if proto.ir_version >= 3 and not proto.opset_import:
        raise ModelFileError(
            f"{model_file.name} imports no operator set; IR version 3 and later must import one"
        )
