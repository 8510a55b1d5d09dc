"""gRPC server of the protocol's service: token, limits, statuses of errors, metrics and log."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NoReturn

import grpc

from ortpkg.foundations.errors import UnauthorizedError
from ortpkg.scale.serving.bearer_token import check_bearer_token
from ortpkg.scale.serving.grpc_answers import UnreadAnswers
from ortpkg.scale.serving.grpc_intake import Intake
from ortpkg.scale.serving.grpc_messages import SERVICE
from ortpkg.scale.serving.grpc_service import InferenceService, Method
from ortpkg.scale.serving.refusals import drop_tracebacks, refusal_of
from ortpkg.scale.serving.server_log import log_event, log_fault
from ortpkg.scale.serving.serving_options import ListenOptions, ServingLimits

#: Time that a connection without a call stays open.
_IDLE_MS = 300_000
#: Limit of unread answers, in multiples of the largest request.
_LARGEST_ANSWERS = 8
#: Methods for load balancers, which have no token.
_OPEN_METHODS = frozenset({"ServerLive", "ServerReady"})
#: Method whose messages have tensors.
_INFERENCE = "ModelInfer"


class GuardedService(grpc.GenericRpcHandler):
    """Service behind its limits and its token; every exception becomes a status.

    Args:
        service: Service that answers.
        limits: Limits of requests.
        token: Bearer token that clients must send; None for none.
        logs_requests: True to log every call, not only refused ones.
    """

    def __init__(
        self,
        service: InferenceService,
        limits: ServingLimits,
        token: str | None,
        *,
        logs_requests: bool,
    ) -> None:
        self._observer = service.answering.observer
        self._intake = Intake(limits)
        self._unread = UnreadAnswers(_LARGEST_ANSWERS * limits.request_nbytes, limits.timeout_s)
        self._token = token
        self._logs_requests = logs_requests
        self._handlers: dict[str, grpc.RpcMethodHandler] = {}
        for name, method in service.methods().items():
            path = f"/{SERVICE.full_name}/{name}"
            answer = partial(self._answer, method, is_inference=name == _INFERENCE)
            self._handlers[path] = self._handler(path, answer)

    def service(self, handler_call_details: Any) -> grpc.RpcMethodHandler | None:
        """Return the handler of a call; None if there is no such method."""
        path = handler_call_details.method
        if self._token is not None and path.rpartition("/")[2] not in _OPEN_METHODS:
            metadata = dict(handler_call_details.invocation_metadata)
            try:
                check_bearer_token(metadata.get("authorization"), self._token)
            except UnauthorizedError as error:
                return self._handler(path, partial(_raise, error))
        return self._handlers.get(path)

    def _handler(
        self, path: str, answer: Callable[[Any], Awaitable[bytes]]
    ) -> grpc.RpcMethodHandler:
        """Return a handler whose ``answer`` reads the message of a call's context itself."""

        async def answer_or_refuse(_messages: Any, context: Any) -> bytes:
            return await self._answered(answer(context), context, path)

        # No serializer, because gRPC would keep the answer as an object besides its bytes.
        return grpc.stream_unary_rpc_method_handler(answer_or_refuse)

    async def _answer(self, method: Method, context: Any, *, is_inference: bool) -> bytes:
        """Return the bytes of the answer to a call.

        Raises:
            ServerBusyError: Too many bytes are waiting.
            Exception: Any error of reading the message and of ``method``.
        """
        data = await self._intake.answer(method, context, is_inference=is_inference)
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
            return await _refuse(error, context, path)
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


async def _raise(error: UnauthorizedError, _context: Any) -> NoReturn:
    raise error


async def _refuse(error: Exception, context: Any, path: str) -> NoReturn:
    """End a call with the status of :func:`~ortpkg.scale.serving.refusals.refusal_of`."""
    refusal = refusal_of(error)
    if refusal.is_our_fault:
        log_fault("fault", error, path=path)
    drop_tracebacks(error)
    await context.abort(grpc.StatusCode[refusal.grpc_code], refusal.reason)
    raise AssertionError("abort raises")


def _code_name(code: Any) -> str:
    """Return the name of a status; "OK" for a call that has none yet."""
    return code.name if isinstance(code, grpc.StatusCode) else "OK"


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
    """Return a server of the service, which does not listen yet."""
    server = grpc.aio.server(
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
    guarded = GuardedService(service, limits, token, logs_requests=logs_requests)
    server.add_generic_rpc_handlers([guarded])
    return server
