"""The gRPC service of the protocol: KServe's, with versions, and requests checked first."""

from __future__ import annotations

import time
import traceback
from typing import Any

import grpc
from grpc_interceptor import AsyncExceptionToStatusInterceptor
from kserve import InferInput, InferRequest, InferResponse
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages
from kserve.protocol.grpc.grpc_predict_v2_pb2_grpc import (
    add_GRPCInferenceServiceServicer_to_server,
)
from kserve.protocol.grpc.servicer import InferenceServicer
from kserve.protocol.infer_type import RequestedOutput

from ortpkg.errors import InvalidRequestError, UnauthorizedError, quoted
from ortpkg.serving.bearer_token import check_bearer_token
from ortpkg.serving.kserve_messages import Intake
from ortpkg.serving.kserve_repository import PackageDataPlane, key_of
from ortpkg.serving.observer import Observer
from ortpkg.serving.protocol_tensors import raw_bytes
from ortpkg.serving.refusals import refusal_of
from ortpkg.serving.server_log import log_event, log_fault
from ortpkg.serving.serving_options import ListeningPlace, ServingLimits

#: Datatype → the field of a message that carries its values one by one.
_CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


#: How long a connection without a call stays open.
_IDLE_MS = 300_000
#: What a load balancer asks, which has no token.
_OPEN_METHODS = frozenset({"ServerLive", "ServerReady"})


class VersionedServicer(InferenceServicer):
    """KServe's service, with the versions that its own does not look at."""

    def __init__(self, data_plane: PackageDataPlane) -> None:
        super().__init__(data_plane, None)
        self._plane = data_plane

    async def ModelReady(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Whether a model answers: it does where it is known."""
        del context
        await self._plane.get_model(key_of(request.name, request.version))
        return messages.ModelReadyResponse(ready=True)

    async def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Versions, inputs and outputs of a model."""
        del context
        told = await self._plane.versioned_metadata(request.name, request.version)
        return messages.ModelMetadataResponse(**told)

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Answers one request for inference."""
        del context
        response, _ = await self._plane.infer(
            key_of(request.model_name, request.model_version), _kserve_request(request), {}
        )
        return _message(response)

    async def RepositoryModelLoad(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Refused: versions come and go with the store."""
        del request, context
        raise NotImplementedError("clients cannot load models")

    async def RepositoryModelUnload(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Refused, likewise."""
        del request, context
        raise NotImplementedError("clients cannot unload models")


class RefusingInterceptor(AsyncExceptionToStatusInterceptor):
    """Says what went wrong as a status; a fault of ours goes into the log.

    Args:
        observer: hears the status of every call.
        intake: reads their messages.
        logs_requests: whether every call is logged, not only those that are refused.
    """

    def __init__(self, observer: Observer, intake: Intake, *, logs_requests: bool) -> None:
        super().__init__()
        self._observer = observer
        self._intake = intake
        self._logs_requests = logs_requests

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """The handler of a call; it reads the message itself."""

        async def find(details: Any) -> Any:
            handler = await continuation(details)
            if handler is None or handler.request_streaming:
                return handler
            return self._intake.reading(handler)

        return await super().intercept_service(find, handler_call_details)

    async def intercept(
        self, method: Any, request_or_iterator: Any, context: Any, method_name: str
    ) -> Any:
        """One call, whose status is told."""
        start = time.monotonic()
        try:
            return await super().intercept(method, request_or_iterator, context, method_name)
        finally:
            status = _code_name(context.code())
            self._observer.responded("grpc", status)
            if self._logs_requests or status != "OK":
                log_event(
                    "request",
                    protocol="grpc",
                    path=method_name,
                    status=status,
                    duration_ms=round((time.monotonic() - start) * 1e3, 3),
                )

    async def handle_exception(
        self, ex: Exception, request_or_iterator: Any, context: Any, method_name: str
    ) -> None:
        """Ends the call as :func:`~ortpkg.serving.refusals.refusal_of` says."""
        del request_or_iterator
        if isinstance(ex, grpc.aio.AbortError):
            raise ex  # it is refused already
        refusal = refusal_of(ex)
        if refusal.is_our_fault:
            log_fault("fault", ex, path=method_name)
        # They hold the request, which would stay until garbage is collected.
        traceback.clear_frames(ex.__traceback__)
        await context.abort(grpc.StatusCode[refusal.grpc_code], refusal.reason)


def _code_name(code: Any) -> str:
    """The name of a status; a call that has none yet ends well."""
    return code.name if isinstance(code, grpc.StatusCode) else "OK"


def _kserve_request(request: Any) -> InferRequest:
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise InvalidRequestError(
            f"the request has {len(request.inputs)} inputs and {len(raw)} raw_input_contents"
        )
    if raw and any(each.HasField("contents") for each in request.inputs):
        raise InvalidRequestError("a request has raw_input_contents or contents, not both")
    return InferRequest(
        model_name=request.model_name,
        model_version=request.model_version,
        request_id=request.id,
        from_grpc=True,
        infer_inputs=[
            InferInput(
                name=each.name,
                shape=list(each.shape),
                datatype=each.datatype,
                data=raw[place] if raw else _contents(each),
            )
            for place, each in enumerate(request.inputs)
        ],
        request_outputs=[RequestedOutput(each.name) for each in request.outputs],
    )


def _contents(tensor: Any) -> list[Any]:
    field = _CONTENTS.get(tensor.datatype.upper())
    if field is None:
        raise InvalidRequestError(
            f"input {quoted(tensor.name)} of datatype {quoted(tensor.datatype)} needs"
            " raw_input_contents"
        )
    others = [each.name for each, _ in tensor.contents.ListFields() if each.name != field]
    if others:
        raise InvalidRequestError(
            f"input {quoted(tensor.name)} of datatype {tensor.datatype} has its values in"
            f" {field}, not in {others[0]}"
        )
    return list(getattr(tensor.contents, field))


def _message(response: InferResponse) -> Any:
    return messages.ModelInferResponse(
        id=response.id,
        model_name=response.model_name,
        model_version=response.model_version,
        outputs=[
            messages.ModelInferResponse.InferOutputTensor(
                name=each.name, datatype=each.datatype, shape=each.shape
            )
            for each in response.outputs
        ],
        raw_output_contents=[raw_bytes(each.data, each.datatype) for each in response.outputs],
    )


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Lets those pass who show the token; health is told to all."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """The handler of a call, or one that refuses it."""
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


def add_port(server: grpc.aio.Server, address: str, place: ListeningPlace) -> int:
    """Has the server listen there; the port. Raises RuntimeError or OSError where it cannot."""
    if place.certificate is None or place.private_key is None:
        return int(server.add_insecure_port(address))
    pair = (place.private_key.read_bytes(), place.certificate.read_bytes())
    return int(server.add_secure_port(address, grpc.ssl_server_credentials([pair])))


def make_grpc_server(
    data_plane: PackageDataPlane, limits: ServingLimits, token: str | None, *, logs_requests: bool
) -> grpc.aio.Server:
    """The service on a server that listens nowhere yet."""
    guards = () if token is None else (TokenInterceptor(token),)
    server = grpc.aio.server(
        interceptors=(
            RefusingInterceptor(
                data_plane.answering.observer, Intake(limits), logs_requests=logs_requests
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
        ],
    )
    add_GRPCInferenceServiceServicer_to_server(VersionedServicer(data_plane), server)
    return server
