"""Why a server does not answer a request."""

from __future__ import annotations

from ortpkg.errors.base import OrtpkgError
from ortpkg.errors.codes import StatusCode


class ServingError(OrtpkgError):
    """A request to a server cannot be answered."""


class InvalidRequestError(ServingError):
    """A request is not what the protocol says.

    What does not fit the model is an :class:`InvalidFeedError`.
    """

    code = StatusCode.INVALID_ARGUMENT


class UnauthorizedError(ServingError):
    """A request lacks the token that the server asks for."""

    code = StatusCode.INVALID_ARGUMENT


class UnknownModelError(ServingError):
    """No model of that name, or no such version of it, is served.

    Attributes:
        name: the model's.
        version: the one that was asked for; None where the model itself is not known.
    """

    code = StatusCode.NOT_FOUND

    def __init__(self, message: str, *, name: str, version: str | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.version = version


class RequestTooLargeError(ServingError):
    """A request has more than the server takes.

    ``limit_nbytes`` says how many bytes that are, None where the bound counts something else.
    """

    code = StatusCode.INVALID_ARGUMENT

    def __init__(self, message: str, *, limit_nbytes: int | None = None) -> None:
        super().__init__(message)
        self.limit_nbytes = limit_nbytes


class ServerBusyError(ServingError):
    """As many requests wait as may; ``retry_after_s`` says when to try again."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NotServingError(ServingError):
    """The server does not answer yet, or no more; ``retry_after_s`` says when to try again."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
