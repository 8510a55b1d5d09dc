"""Base of all errors, and errors that any call may raise."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

from ortpkg.foundations.errors.codes import ExitCode, StatusCode
from ortpkg.foundations.errors.onnxruntime_exceptions import EXCEPTION_OF_STATUS, Fail
from ortpkg.foundations.errors.secret_texts import redacted


class OrtpkgError(Exception):
    """Base of all errors that ortpkg raises on purpose.

    The class of an instance is a subclass, with the same name, of the class that was called; its
    further bases are onnxruntime's exception for its ``code`` and the ``further`` ones. The
    exceptions of two statuses are unrelated, while our classes often are related.

    Attributes:
        args: The message, without secrets that somebody repeated to us.
    """

    code: ClassVar[StatusCode] = StatusCode.FAIL
    #: Other exceptions of onnxruntime for these situations.
    further: ClassVar[tuple[type[Exception], ...]] = ()
    exit_code: ClassVar[ExitCode] = ExitCode.FINDINGS

    def __new__(cls, *args: Any, **details: Any) -> Self:  # noqa: ARG004 - __init__ takes details
        kind: type[Self] = _with_exception_of_status(cls)
        return super().__new__(kind, *args)

    def __init__(self, *args: object) -> None:
        super().__init__(
            *(redacted(argument) if isinstance(argument, str) else argument for argument in args)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self).__bases__[0], self.args, dict(self.__dict__))


#: Class of the instances of each class.
_classes_of_instances: dict[Any, Any] = {}


def _with_exception_of_status(kind: type[Any]) -> Any:
    """Return the class of instances of ``kind``."""
    instance_class = _classes_of_instances.get(kind)
    if instance_class is None:
        names = {
            "__module__": kind.__module__,
            "__qualname__": kind.__qualname__,
            "__doc__": kind.__doc__,
        }
        instance_class = _classes_of_instances[kind] = type(
            kind.__name__, (kind, EXCEPTION_OF_STATUS[kind.code], *kind.further), names
        )
    return instance_class


def _restored(kind: type[OrtpkgError], args: tuple[Any, ...], state: dict[str, Any]) -> OrtpkgError:
    """Return an error from its pickled or copied parts."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class UsageError(OrtpkgError, RuntimeError, ValueError):
    """The caller's arguments contradict each other or name something that does not exist."""

    code = StatusCode.INVALID_ARGUMENT
    exit_code = ExitCode.USAGE


class UnknownBackendError(UsageError):
    """There is no backend of that name, here or anywhere.

    Attributes:
        backend: The name.
    """

    def __init__(self, message: str, *, backend: str) -> None:
        super().__init__(message)
        self.backend = backend


class EpLibraryError(UsageError):
    """A library of execution providers cannot be registered, or was not."""

    further = (Fail,)


class ProfileError(UsageError):
    """A machine profile cannot be read, or is invalid.

    Attributes:
        file: File of the profile, or the requested name.
        pointer: JSON pointer (RFC 6901) to the first error; "" is the whole document.
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
    """Planning broke an invariant, for example two live values share bytes.

    This is a bug in ortpkg.
    """

    exit_code = ExitCode.MODEL
