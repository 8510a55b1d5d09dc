"""Answers to errors: HTTP status, gRPC code and reason.

A fault of the client is never a 500. Of a fault of the server the client learns only that there was
one; the log has the details.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ortpkg.foundations.errors import (
    CancelledError,
    InvalidFeedError,
    InvalidRequestError,
    LimitExceededError,
    NotOfferedError,
    NotServingError,
    OrtpkgError,
    RequestTooLargeError,
    RunError,
    ServerBusyError,
    UnauthorizedError,
    UnknownModelError,
    printable,
)

_NO_MEMORY = "the machine has not the memory that this request needs"
_UNKNOWN_FAULT = "the server failed to answer this request; its log says why"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Answer that says why there are no outputs.

    Attributes:
        status: HTTP status.
        grpc_code: Name of the gRPC code.
        reason: Reason for people.
        retry_after_s: Time after which to retry, in seconds; None if the same request would fail
            again.
    """

    status: int
    grpc_code: str
    reason: str
    retry_after_s: float | None = None

    @property
    def is_our_fault(self) -> bool:
        """True if the server's log should say where the error arose."""
        return self.status == 500

    @property
    def headers(self) -> dict[str, str]:
        """Headers of an HTTP answer, without those that describe its body."""
        fields = {"www-authenticate": "Bearer"} if self.status == 401 else {}
        if self.retry_after_s is not None:
            fields["retry-after"] = str(math.ceil(self.retry_after_s))
        return fields


#: HTTP status and gRPC code of each error; the first match counts. If a model that has run before
#: fails on a request, the request is the cause.
_STATUSES: tuple[tuple[type[OrtpkgError], int, str], ...] = (
    (InvalidRequestError, 400, "INVALID_ARGUMENT"),
    (InvalidFeedError, 400, "INVALID_ARGUMENT"),
    (RunError, 400, "INVALID_ARGUMENT"),
    (UnauthorizedError, 401, "UNAUTHENTICATED"),
    (UnknownModelError, 404, "NOT_FOUND"),
    (RequestTooLargeError, 413, "RESOURCE_EXHAUSTED"),
    (ServerBusyError, 429, "RESOURCE_EXHAUSTED"),
    (NotOfferedError, 501, "UNIMPLEMENTED"),
    (NotServingError, 503, "UNAVAILABLE"),
    (CancelledError, 503, "UNAVAILABLE"),
)


#: HTTP status and gRPC code of each limit: time and memory of a run, and time in which a body must
#: arrive.
_STATUS_OF_LIMIT = {
    "time": (504, "DEADLINE_EXCEEDED"),
    "memory": (413, "RESOURCE_EXHAUSTED"),
    "body": (408, "DEADLINE_EXCEEDED"),
}


def refusal_of(error: BaseException) -> Refusal:
    """Return the answer to an error."""
    if isinstance(error, LimitExceededError):
        status, grpc_code = _STATUS_OF_LIMIT[error.limit]
        return Refusal(status=status, grpc_code=grpc_code, reason=printable(error))
    if isinstance(error, MemoryError):
        return Refusal(status=413, grpc_code="RESOURCE_EXHAUSTED", reason=_NO_MEMORY)
    for kind, status, grpc_code in _STATUSES:
        if isinstance(error, kind):
            return Refusal(
                status=status,
                grpc_code=grpc_code,
                reason=printable(error),
                retry_after_s=getattr(error, "retry_after_s", None),
            )
    return Refusal(status=500, grpc_code="INTERNAL", reason=_UNKNOWN_FAULT)


def drop_tracebacks(error: BaseException) -> None:
    """Release the frames of an error and its causes, which hold the request.

    It is for errors that outlive their request: gRPC keeps them in a cycle until garbage is
    collected.
    """
    pending: list[BaseException] = [error]
    while pending:
        current = pending.pop()
        behind = (current.__cause__, current.__context__)
        pending += [other for other in behind if other is not None and other.__traceback__]
        current.__traceback__ = None
