"""Errors of creating and running sessions."""

from __future__ import annotations

from ortpkg.foundations.errors.base import OrtpkgError
from ortpkg.foundations.errors.codes import ExitCode, StatusCode
from ortpkg.foundations.errors.onnxruntime_exceptions import Fail, InvalidArgument


class SessionError(OrtpkgError):
    """A session cannot be created or run."""

    exit_code = ExitCode.MODEL


class InvalidSessionOptionError(SessionError, RuntimeError, ValueError):
    """A session, run or provider option has a wrong value.

    Attributes:
        key: Key of the option.
    """

    code = StatusCode.INVALID_ARGUMENT
    further = (Fail,)
    exit_code = ExitCode.USAGE

    def __init__(self, message: str, *, key: str) -> None:
        super().__init__(message)
        self.key = key


class InvalidFeedError(SessionError, RuntimeError, ValueError):
    """An input of the feed has a wrong name, type or shape.

    Attributes:
        name: Name of the input.
        expected, actual: Declared and actual type and shape; "" if the name is wrong.
    """

    code = StatusCode.INVALID_ARGUMENT
    further = (Fail,)  # raised by onnxruntime for an input that is not bound
    exit_code = ExitCode.USAGE

    def __init__(self, message: str, *, name: str, expected: str = "", actual: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.expected = expected
        self.actual = actual


class RunError(SessionError, InvalidArgument, Fail):
    """A kernel failed; its own message follows the node's name.

    Attributes:
        node_name: Name of the node that failed, or None.
    """

    code = StatusCode.RUNTIME_EXCEPTION

    def __init__(self, message: str, *, node_name: str | None = None) -> None:
        super().__init__(message)
        self.node_name = node_name


class LimitExceededError(SessionError):
    """A run exceeded its limit of memory or time.

    Attributes:
        limit: "memory" or "time".
        node_name: Node that was to run next, if known.
    """

    code = StatusCode.RUNTIME_EXCEPTION

    def __init__(self, message: str, *, limit: str, node_name: str | None = None) -> None:
        super().__init__(message)
        self.limit = limit
        self.node_name = node_name
