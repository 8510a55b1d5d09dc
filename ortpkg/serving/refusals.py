"""What a client is told of an error: HTTP's status, gRPC's code, the reason.

A fault of the client's is never a 500. Of our own faults it learns that there was one; the log says
which.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ortpkg.errors import (
    CancelledError,
    InvalidFeedError,
    InvalidRequestError,
    LimitExceededError,
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
    """An answer that says why there are no outputs.

    Attributes:
        status: HTTP's.
        grpc_code: the name of gRPC's.
        reason: for people.
        retry_after_s: when to try again; None: the same request would fail again.
    """

    status: int
    grpc_code: str
    reason: str
    retry_after_s: float | None = None

    @property
    def is_our_fault(self) -> bool:
        """Whether the server's log should say where it arose."""
        return self.status == 500

    @property
    def headers(self) -> dict[str, str]:
        """The headers of an answer over HTTP, but for those that describe its body."""
        found = {"www-authenticate": "Bearer"} if self.status == 401 else {}
        if self.retry_after_s is not None:
            found["retry-after"] = str(math.ceil(self.retry_after_s))
        return found


#: Error → HTTP's status and gRPC's code; the first that fits counts. A model that has run before
#: and fails on this request fails because of what is in it.
_STATUSES: tuple[tuple[type[OrtpkgError], int, str], ...] = (
    (InvalidRequestError, 400, "INVALID_ARGUMENT"),
    (InvalidFeedError, 400, "INVALID_ARGUMENT"),
    (RunError, 400, "INVALID_ARGUMENT"),
    (UnauthorizedError, 401, "UNAUTHENTICATED"),
    (UnknownModelError, 404, "NOT_FOUND"),
    (RequestTooLargeError, 413, "RESOURCE_EXHAUSTED"),
    (ServerBusyError, 429, "RESOURCE_EXHAUSTED"),
    (NotServingError, 503, "UNAVAILABLE"),
    (CancelledError, 503, "UNAVAILABLE"),
)


#: Which limit → the same: of a run's time and memory, and of the time that a body takes to come.
_STATUS_OF_LIMIT = {
    "time": (504, "DEADLINE_EXCEEDED"),
    "memory": (413, "RESOURCE_EXHAUSTED"),
    "body": (408, "DEADLINE_EXCEEDED"),
}


def refusal_of(error: BaseException) -> Refusal:
    """What the client is told of ``error``."""
    if isinstance(error, LimitExceededError):
        status, grpc_code = _STATUS_OF_LIMIT[error.limit]
        return Refusal(status=status, grpc_code=grpc_code, reason=printable(error))
    if isinstance(error, MemoryError):
        return Refusal(status=413, grpc_code="RESOURCE_EXHAUSTED", reason=_NO_MEMORY)
    if isinstance(error, NotImplementedError):
        return Refusal(status=501, grpc_code="UNIMPLEMENTED", reason=printable(error))
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
    """Let go of the frames that an error and those behind it passed, which hold the request.

    For an error that outlives its request: gRPC keeps it in a cycle until garbage is collected.
    """
    pending: list[BaseException] = [error]
    while pending:
        current = pending.pop()
        behind = (current.__cause__, current.__context__)
        pending += [other for other in behind if other is not None and other.__traceback__]
        current.__traceback__ = None
