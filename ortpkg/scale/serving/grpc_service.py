"""gRPC service of the protocol, with requests checked before they are read."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import grpc
import numpy as np

from ortpkg.foundations.errors import InvalidRequestError, UnauthorizedError, quoted
from ortpkg.scale.serving import grpc_messages as messages
from ortpkg.scale.serving.answering import Answering
from ortpkg.scale.serving.bearer_token import check_bearer_token
from ortpkg.scale.serving.grpc_answers import UnreadAnswers
from ortpkg.scale.serving.grpc_intake import Intake
from ortpkg.scale.serving.http_endpoints import off_loop
from ortpkg.scale.serving.observer import Observer
from ortpkg.scale.serving.protocol_metadata import model_metadata, server_metadata
from ortpkg.scale.serving.protocol_tensors import (
    DTYPES,
    Array,
    RequestTensor,
    TensorSpec,
    raw_parts,
)
from ortpkg.scale.serving.refusals import drop_tracebacks, refusal_of
from ortpkg.scale.serving.served_model import ServedModel
from ortpkg.scale.serving.served_versions import ServedVersions
from ortpkg.scale.serving.server_log import log_event, log_fault
from ortpkg.scale.serving.serving_options import ListenOptions, ServingLimits

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
#: Time that a connection without a call stays open.
_IDLE_MS = 300_000
#: Limit of unread answers, in multiples of the largest request.
_LARGEST_ANSWERS = 8
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
#: Methods for load balancers, which have no token.
_OPEN_METHODS = frozenset({"ServerLive", "ServerReady"})


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

    def handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        """Return the handler of each method by its name."""
        handlers = {
            method.name: grpc.unary_unary_rpc_method_handler(
                getattr(self, method.name),
                request_deserializer=messages.message_class(method.input_type.name).FromString,
                response_serializer=messages.message_class(
                    method.output_type.name
                ).SerializeToString,
            )
            for method in messages.SERVICE.methods
        }
        for name, reason in _REFUSED_METHODS.items():
            handlers[name] = grpc.unary_unary_rpc_method_handler(partial(_refuse_change, reason))
        return handlers

    async def ServerLive(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """Report that the server is alive."""
        return messages.ServerLiveResponse(live=True)

    async def ServerReady(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """Report whether the server is ready."""
        return messages.ServerReadyResponse(ready=self._is_ready())

    async def ServerMetadata(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """Return the server's name, version and extensions of the protocol."""
        return messages.ServerMetadataResponse(**server_metadata())

    async def ModelReady(self, request: Any, _context: Any) -> Any:  # noqa: N802
        """Report that a known model is ready."""
        self._versions.find(request.name, request.version or None)
        return messages.ModelReadyResponse(ready=True)

    async def ModelMetadata(self, request: Any, _context: Any) -> Any:  # noqa: N802
        """Return the versions, inputs and outputs of a model."""
        metadata = model_metadata(self._versions, request.name, request.version or None)
        return messages.ModelMetadataResponse(**metadata)

    async def ModelInfer(self, request: Any, _context: Any) -> bytes:  # noqa: N802
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


async def _refuse_change(reason: str, _request: bytes, _context: Any) -> NoReturn:
    raise NotImplementedError(reason)


class RefusingInterceptor(grpc.aio.ServerInterceptor):
    """Interceptor that answers errors with a status, and logs faults of the server.

    Args:
        observer: Observer of the status of every call.
        intake: Reads the calls' messages.
        unread: Counts their answers.
        logs_requests: True to log every call, not only refused ones.
    """

    def __init__(
        self, observer: Observer, intake: Intake, unread: UnreadAnswers, *, logs_requests: bool
    ) -> None:
        self._observer = observer
        self._intake = intake
        self._unread = unread
        self._logs_requests = logs_requests

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Return the handler of a call, which reads the message itself."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        path = handler_call_details.method
        answer = handler.stream_unary or self._intake.reading(
            handler, is_inference=path.endswith("/ModelInfer")
        )

        async def answer_or_refuse(messages: Any, context: Any) -> Any:
            answering = self._serialized(answer(messages, context), handler, context)
            return await self._answered(answering, context, path)

        # No serializer, because gRPC would keep the answer as an object besides its bytes.
        return grpc.stream_unary_rpc_method_handler(answer_or_refuse)

    async def _serialized(
        self, answering: Awaitable[Any], handler: grpc.RpcMethodHandler, context: Any
    ) -> bytes:
        """Return the answer's bytes.

        Raises:
            ServerBusyError: Too many bytes are waiting.
        """
        answer = await answering
        data: bytes = answer if isinstance(answer, bytes) else handler.response_serializer(answer)
        self._unread.add(len(data), context)
        return data

    async def _answered(self, answering: Awaitable[bytes], context: Any, path: str) -> bytes:
        """Answer one call and report its status."""
        start = time.monotonic()
        try:
            return await answering
        except grpc.aio.AbortError:
            raise  # it was refused already
        except Exception as error:  # noqa: BLE001 - nothing may end the server
            return await self._refuse(error, context, path)
        finally:
            status = _code_name(context.code())
            self._observer.responded("grpc", status)
            if self._logs_requests or status != "OK":
                log_event(
                    "request",
                    protocol="grpc",
                    path=path,
                    status=status,
                    duration_ms=round((time.monotonic() - start) * 1e3, 3),
                )

    async def _refuse(self, error: Exception, context: Any, path: str) -> NoReturn:
        """End the call with the status of :func:`~ortpkg.scale.serving.refusals.refusal_of`."""
        refusal = refusal_of(error)
        if refusal.is_our_fault:
            log_fault("fault", error, path=path)
        drop_tracebacks(error)
        await context.abort(grpc.StatusCode[refusal.grpc_code], refusal.reason)
        raise AssertionError("abort raises")


def _code_name(code: Any) -> str:
    """Return the name of a status; "OK" for a call that has none yet."""
    return code.name if isinstance(code, grpc.StatusCode) else "OK"


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


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Interceptor that requires the token, except for calls of health."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Return the handler of a call, or one that refuses it."""
        if handler_call_details.method.rpartition("/")[2] not in _OPEN_METHODS:
            metadata = dict(handler_call_details.invocation_metadata)
            try:
                check_bearer_token(metadata.get("authorization"), self._token)
            except UnauthorizedError as error:
                return _refusing(error)
        return await continuation(handler_call_details)


def _refusing(error: UnauthorizedError) -> grpc.RpcMethodHandler:
    async def refuse(_unread: Any, _context: Any) -> None:
        raise error

    return grpc.stream_unary_rpc_method_handler(refuse)


def add_port(server: grpc.aio.Server, address: str, listen: ListenOptions) -> int:
    """Let the server listen at an address; returns the port.

    Raises:
        RuntimeError: It cannot.
        OSError: It cannot, or a file of the certificate cannot be read.
    """
    if listen.certificate is None or listen.private_key is None:
        return int(server.add_insecure_port(address))
    pair = (listen.private_key.read_bytes(), listen.certificate.read_bytes())
    return int(server.add_secure_port(address, grpc.ssl_server_credentials([pair])))


def make_grpc_server(
    service: InferenceService, limits: ServingLimits, token: str | None, *, logs_requests: bool
) -> grpc.aio.Server:
    """Return a server with the service, which does not listen yet."""
    guards = () if token is None else (TokenInterceptor(token),)
    server = grpc.aio.server(
        interceptors=(
            RefusingInterceptor(
                service.answering.observer,
                Intake(limits),
                UnreadAnswers(_LARGEST_ANSWERS * limits.request_nbytes, limits.timeout_s),
                logs_requests=logs_requests,
            ),
            *guards,
        ),
        maximum_concurrent_rpcs=limits.connections,
        options=[
            ("grpc.max_receive_message_length", limits.request_nbytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_connection_idle_ms", _IDLE_MS),
            ("grpc.max_allowed_incoming_connections", limits.connections),
            # Without it a second server on a port gets a part of the first one's requests.
            ("grpc.so_reuseport", 0),
            # With it a fast client's calls bring megabytes each before anybody reads them.
            ("grpc.http2.bdp_probe", 0),
        ],
    )
    name = messages.SERVICE.full_name
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(name, service.handlers())]
    )
    return server
