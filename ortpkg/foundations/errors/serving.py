"""Errors of a server that does not answer a request."""

from __future__ import annotations

from ortpkg.foundations.errors.base import OrtpkgError
from ortpkg.foundations.errors.codes import StatusCode


class ServingError(OrtpkgError):
    """A request to a server cannot be answered."""


class InvalidRequestError(ServingError):
    """A request breaks the protocol.

    A request that does not fit the model is an :class:`InvalidFeedError`.
    """

    code = StatusCode.INVALID_ARGUMENT


class UnauthorizedError(ServingError):
    """A request lacks the token that the server requires."""

    code = StatusCode.INVALID_ARGUMENT


class UnknownModelError(ServingError):
    """No model of that name, or no such version of it, is served.

    Attributes:
        name: Name of the model.
        version: Requested version; None if the model itself is unknown.
    """

    code = StatusCode.NOT_FOUND

    def __init__(self, message: str, *, name: str, version: str | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.version = version


class RequestTooLargeError(ServingError):
    """A request exceeds what the server accepts.

    Attributes:
        limit_nbytes: Limit in bytes; None if the limit counts something else.
    """

    code = StatusCode.INVALID_ARGUMENT

    def __init__(self, message: str, *, limit_nbytes: int | None = None) -> None:
        super().__init__(message)
        self.limit_nbytes = limit_nbytes


class ServerBusyError(ServingError):
    """The maximum of requests is waiting already.

    Attributes:
        retry_after_s: Time after which to retry, in seconds.
    """

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NotOfferedError(ServingError):
    """A client asked for something that this server never does, such as loading a model."""


class NotServingError(ServingError):
    """The server does not answer yet, or no longer.

    Attributes:
        retry_after_s: Time after which to retry, in seconds.
    """

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
