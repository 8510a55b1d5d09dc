"""What all errors have in common, and those that any call may raise."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

from ortpkg.errors.codes import ExitCode, StatusCode
from ortpkg.errors.onnxruntime_exceptions import EXCEPTION_OF_STATUS, Fail
from ortpkg.errors.secret_texts import redacted


class OrtpkgError(Exception):
    """Everything that ortpkg raises on purpose.

    An instance's class is a subclass, of the same name, of the one that was called: that one with
    onnxruntime's exception for its ``code`` beside it, and the ``further`` ones. The exceptions of
    two statuses are no relatives, our classes often are.

    Attributes:
        args: the message, without secrets that somebody repeated to us.
    """

    code: ClassVar[StatusCode] = StatusCode.FAIL
    #: What else onnxruntime answers with in these situations.
    further: ClassVar[tuple[type[Exception], ...]] = ()
    exit_code: ClassVar[ExitCode] = ExitCode.FINDINGS

    def __new__(cls, *args: Any, **details: Any) -> Self:  # noqa: ARG004 - details are __init__'s
        kind: type[Self] = _with_exception_of_status(cls)
        return super().__new__(kind, *args)

    def __init__(self, *args: object) -> None:
        super().__init__(
            *(redacted(argument) if isinstance(argument, str) else argument for argument in args)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self).__bases__[0], self.args, dict(self.__dict__))


#: Class → the class of its instances.
_classes_of_instances: dict[Any, Any] = {}


def _with_exception_of_status(kind: type[Any]) -> Any:
    """The class of instances of ``kind``."""
    found = _classes_of_instances.get(kind)
    if found is None:
        names = {
            "__module__": kind.__module__,
            "__qualname__": kind.__qualname__,
            "__doc__": kind.__doc__,
        }
        found = _classes_of_instances[kind] = type(
            kind.__name__, (kind, EXCEPTION_OF_STATUS[kind.code], *kind.further), names
        )
    return found


def _restored(kind: type[OrtpkgError], args: tuple[Any, ...], state: dict[str, Any]) -> OrtpkgError:
    """An error as it was pickled or copied."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class UsageError(OrtpkgError, RuntimeError, ValueError):
    """The caller's arguments contradict each other or name something that does not exist."""

    code = StatusCode.INVALID_ARGUMENT
    exit_code = ExitCode.USAGE


class UnknownBackendError(UsageError):
    """There is no backend of that name, here or anywhere. ``backend``: the name."""

    def __init__(self, message: str, *, backend: str) -> None:
        super().__init__(message)
        self.backend = backend


class EpLibraryError(UsageError):
    """A library of execution providers cannot be registered, or was not."""

    further = (Fail,)


class ProfileError(UsageError):
    """A machine profile cannot be read, or is not one.

    Attributes:
        file: the profile's file, or the name that was asked for.
        pointer: JSON pointer (RFC 6901) to the first thing that is wrong; "" is the whole document.
    """

    def __init__(self, message: str, *, file: Path | str, pointer: str = "") -> None:
        super().__init__(message)
        self.file = file
        self.pointer = pointer


class CancelledError(OrtpkgError):
    """The caller cancelled a run or a command; nothing is half-done."""

    exit_code = ExitCode.CANCELLED


class LoadCancelledError(CancelledError):
    """The caller cancelled the loading of a model; there is no session."""

    code = StatusCode.MODEL_LOAD_CANCELED


class PlanVerificationError(OrtpkgError):
    """Two live values share bytes, or the like: a bug of ours in planning, never the model's."""

    exit_code = ExitCode.MODEL
