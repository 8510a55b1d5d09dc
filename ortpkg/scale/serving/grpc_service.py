"""Methods of the protocol's gRPC service, from the bytes of a request to those of an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ortpkg.foundations.errors import InvalidRequestError, NotOfferedError, quoted
from ortpkg.scale.serving import grpc_messages as messages
from ortpkg.scale.serving.answering import Answering
from ortpkg.scale.serving.http_endpoints import off_loop
from ortpkg.scale.serving.protocol_metadata import model_metadata, server_metadata
from ortpkg.scale.serving.protocol_tensors import (
    DTYPES,
    Array,
    RequestTensor,
    TensorSpec,
    raw_parts,
)
from ortpkg.scale.serving.served_model import ServedModel
from ortpkg.scale.serving.served_versions import ServedVersions

#: Field of a message with the single values of a datatype, and the type of numbers in it.
_CONTENTS = {
    "BOOL": ("bool_contents", "?"),
    "INT8": ("int_contents", "<i4"),
    "INT16": ("int_contents", "<i4"),
    "INT32": ("int_contents", "<i4"),
    "INT64": ("int64_contents", "<i8"),
    "UINT8": ("uint_contents", "<u4"),
    "UINT16": ("uint_contents", "<u4"),
    "UINT32": ("uint_contents", "<u4"),
    "UINT64": ("uint64_contents", "<u8"),
    "FP32": ("fp32_contents", "<f4"),
    "FP64": ("fp64_contents", "<f8"),
    "BYTES": ("bytes_contents", ""),
}


#: Numbers to copy in one call, during which other threads wait.
_BLOCK = 10_000
#: Limit of protobuf.
_MOST_MESSAGE_NBYTES = (1 << 31) - 1
#: First bytes of each element of an answer's field of bytes: the field's number and wire type.
_RAW_OUTPUT_KEY = bytes(
    [messages.ModelInferResponse.DESCRIPTOR.fields_by_name["raw_output_contents"].number << 3 | 2]
)
#: Reason why each method that KServe has beside those of the protocol is refused: versions come and
#: go with the store.
_REFUSED_METHODS = {
    "RepositoryModelLoad": "clients cannot load models",
    "RepositoryModelUnload": "clients cannot unload models",
}
#: Returns the bytes of the answer to a message.
Method = Callable[[bytes], Awaitable[bytes]]


class InferenceService:
    """Methods of the service, each with the name that clients call it by.

    Args:
        versions: Served models.
        answering: Threads that run requests.
        is_ready: Returns True while every model has had its first run and the server is not about
            to end.
    """

    def __init__(
        self, versions: ServedVersions, answering: Answering, is_ready: Callable[[], bool]
    ) -> None:
        self.answering = answering
        self._versions, self._is_ready = versions, is_ready

    def methods(self) -> dict[str, Method]:
        """Return the methods that clients may call by their names."""
        methods: dict[str, Method] = {
            method.name: partial(
                _answer_message,
                messages.message_class(method.input_type.name),
                getattr(self, method.name),
            )
            for method in messages.SERVICE.methods
        }
        for name, reason in _REFUSED_METHODS.items():
            methods[name] = _refusing(reason)
        return methods

    async def ServerLive(self, _request: Any) -> Any:  # noqa: N802
        """Report that the server is alive."""
        return messages.ServerLiveResponse(live=True)

    async def ServerReady(self, _request: Any) -> Any:  # noqa: N802
        """Report whether the server is ready."""
        return messages.ServerReadyResponse(ready=self._is_ready())

    async def ServerMetadata(self, _request: Any) -> Any:  # noqa: N802
        """Return the server's name, version and extensions of the protocol."""
        return messages.ServerMetadataResponse(**server_metadata())

    async def ModelReady(self, request: Any) -> Any:  # noqa: N802
        """Report that a known model is ready."""
        self._versions.find(request.name, request.version or None)
        return messages.ModelReadyResponse(ready=True)

    async def ModelMetadata(self, request: Any) -> Any:  # noqa: N802
        """Return the versions, inputs and outputs of a model."""
        metadata = model_metadata(self._versions, request.name, request.version or None)
        return messages.ModelMetadataResponse(**metadata)

    async def ModelInfer(self, request: Any) -> bytes:  # noqa: N802
        """Answer one inference request with the bytes of a message."""
        model = self._versions.find(request.model_name, request.model_version or None)
        feeds = await off_loop(
            lambda: model.read_inputs(_request_tensors(request)), _slow_nbytes(request)
        )
        specs = model.output_specs([output.name for output in request.outputs])
        identifier, names = request.id, [spec.name for spec in specs]
        return await self.answering.answer_written(
            model, feeds, lambda values: _answer(identifier, model, specs, values), names
        )


async def _answer_message(
    request_class: Any, answer: Callable[[Any], Awaitable[Any]], message: bytes
) -> bytes:
    """Return the bytes of the answer to a message.

    Raises:
        InvalidRequestError: The message is no such request.
        Exception: Any error of ``answer``.
    """
    try:
        request = request_class.FromString(message)
    except DecodeError as error:
        raise InvalidRequestError(f"the message is no such request: {error}") from error
    answered = await answer(request)
    return answered if isinstance(answered, bytes) else bytes(answered.SerializeToString())


def _refusing(reason: str) -> Method:
    """Return a method that answers every message with the code UNIMPLEMENTED and a reason."""

    async def refuse(message: bytes) -> NoReturn:
        del message  # whatever it asks for
        raise NotOfferedError(reason)

    return refuse


def _slow_nbytes(request: Any) -> int:
    """Return the number of bytes that are read element by element; 0 for raw numbers."""
    is_slow = any(
        tensor.datatype == "BYTES" or tensor.HasField("contents") for tensor in request.inputs
    )
    return int(request.ByteSize()) if is_slow else 0


def _request_tensors(request: Any) -> list[RequestTensor]:
    """Return the unverified inputs of a request; bytes are not copied."""
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise InvalidRequestError(
            f"the request has {len(request.inputs)} inputs and {len(raw)} raw_input_contents"
        )
    if raw and any(tensor.HasField("contents") for tensor in request.inputs):
        raise InvalidRequestError("a request has raw_input_contents or contents, not both")
    return [
        RequestTensor(
            name=tensor.name,
            datatype=tensor.datatype,
            shape=list(tensor.shape),
            data=raw[index] if raw else _contents(tensor),
        )
        for index, tensor in enumerate(request.inputs)
    ]


def _contents(tensor: Any) -> memoryview | list[Any]:
    """Return numbers as bytes, which need much less memory than a list."""
    field, numbers = _CONTENTS.get(tensor.datatype.upper(), (None, ""))
    if field is None:
        raise InvalidRequestError(
            f"input {quoted(tensor.name)} of datatype {quoted(tensor.datatype)} needs"
            " raw_input_contents"
        )
    others = [
        descriptor.name
        for descriptor, _ in tensor.contents.ListFields()
        if descriptor.name != field
    ]
    if others:
        raise InvalidRequestError(
            f"input {quoted(tensor.name)} of datatype {tensor.datatype} has its values in"
            f" {field}, not in {others[0]}"
        )
    values = getattr(tensor.contents, field)
    if not numbers:
        return list(values)
    array = np.empty(len(values), numbers)
    for start in range(0, len(values), _BLOCK):
        array[start : start + _BLOCK] = values[start : start + _BLOCK]
    narrow = array.astype(DTYPES[tensor.datatype.upper()], copy=False)
    if not np.array_equal(narrow, array, equal_nan=True):
        raise InvalidRequestError(
            f"input {quoted(tensor.name)}: its data must be values of {tensor.datatype}, not one"
            " out of its range"
        )
    return narrow.view(np.uint8).data


def _answer(
    identifier: str, model: ServedModel, specs: Sequence[TensorSpec], values: Mapping[str, Array]
) -> bytes:
    """Return the bytes of a ModelInferResponse.

    Outputs are copied once; protobuf would copy them three times.

    Raises:
        InvalidRequestError: The outputs are more than a message can have.
    """
    head = messages.ModelInferResponse(
        id=identifier,
        model_name=model.name,
        model_version=model.version,
        outputs=[
            messages.ModelInferResponse.InferOutputTensor(
                name=spec.name, datatype=spec.datatype, shape=values[spec.name].shape
            )
            for spec in specs
        ],
    )
    parts: list[bytes | memoryview] = [head.SerializeToString()]
    for spec in specs:
        contents = raw_parts(values[spec.name], spec.datatype)
        parts += [_RAW_OUTPUT_KEY, _varint(sum(map(len, contents))), *contents]
    nbytes = sum(map(len, parts))
    if nbytes > _MOST_MESSAGE_NBYTES:
        raise InvalidRequestError(
            f"the answer has {nbytes} bytes, and a message of gRPC may have"
            f" {_MOST_MESSAGE_NBYTES}: ask for fewer outputs, or over HTTP"
        )
    return b"".join(parts)


def _varint(value: int) -> bytes:
    """Return a number as messages have it."""
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])
