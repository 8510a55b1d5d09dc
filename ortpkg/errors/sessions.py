"""Why a session could not be made, or not run."""

from __future__ import annotations

from ortpkg.errors.base import OrtpkgError
from ortpkg.errors.codes import ExitCode, StatusCode
from ortpkg.errors.onnxruntime_exceptions import Fail, InvalidArgument


class SessionError(OrtpkgError):
    """A session cannot be made or run."""

    exit_code = ExitCode.MODEL


class InvalidSessionOptionError(SessionError, RuntimeError, ValueError):
    """A session, run or provider option has a wrong value; ``key`` says which."""

    code = StatusCode.INVALID_ARGUMENT
    further = (Fail,)
    exit_code = ExitCode.USAGE

    def __init__(self, message: str, *, key: str) -> None:
        super().__init__(message)
        self.key = key


class InvalidFeedError(SessionError, RuntimeError, ValueError):
    """An input that the caller feeds has a wrong name, type or shape.

    Attributes:
        name: the input's.
        expected, actual: type and shape as the model declares them and as they were fed; "" where
            the name is wrong.
    """

    code = StatusCode.INVALID_ARGUMENT
    further = (Fail,)  # of an input that is not bound
    exit_code = ExitCode.USAGE

    def __init__(self, message: str, *, name: str, expected: str = "", actual: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.expected = expected
        self.actual = actual


class RunError(SessionError, InvalidArgument, Fail):
    """A kernel failed; its own text follows the node's name.

    Attributes:
        node_name: the node's, where one failed.
    """

    code = StatusCode.RUNTIME_EXCEPTION

    def __init__(self, message: str, *, node_name: str | None = None) -> None:
        super().__init__(message)
        self.node_name = node_name


class LimitExceededError(SessionError):
    """A run asked for more memory or time than its limits allow.

    Attributes:
        limit: "memory" or "time".
        node_name: the node that was to run next, where that is known.
    """

    code = StatusCode.RUNTIME_EXCEPTION

    def __init__(self, message: str, *, limit: str, node_name: str | None = None) -> None:
        super().__init__(message)
        self.limit = limit
        self.node_name = node_name
