"""The whole exception tree of ortpkg; what its members carry is re-exported here.

One class per thing a caller can do about it. Every error has a ``code`` (ONNX Runtime's status
name, so that code written for onnxruntime can branch the same way) and an ``exit_code`` (what the
command line returns). It is also an instance of onnxruntime's exception for that status
(``onnxruntime_exceptions.py``), and of the built-in exceptions and further statuses that
onnxruntime raises in the same situation, where these differ.

Texts that come from a package are untrusted: put them into a message through :func:`quoted`, which
escapes control characters, so that neither a terminal nor a log can be steered by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from ortpkg.errors.codes import ExitCode as ExitCode
from ortpkg.errors.codes import StatusCode as StatusCode
from ortpkg.errors.codes import VerifyExitCode as VerifyExitCode
from ortpkg.errors.finding import Finding as Finding
from ortpkg.errors.finding import Severity as Severity
from ortpkg.errors.finding import printable as printable
from ortpkg.errors.finding import quoted as quoted
from ortpkg.errors.finding import unquoted as unquoted
from ortpkg.errors.onnxruntime_exceptions import (
    EXCEPTION_OF_STATUS,
    Fail,
    InvalidArgument,
    InvalidGraph,
)
from ortpkg.errors.onnxruntime_exceptions import NotImplemented as OrtNotImplemented


class OrtpkgError(Exception):
    """Everything that ortpkg raises on purpose.

    An instance's class is a subclass, of the same name, of the one that was called: that one with
    onnxruntime's exception for its ``code`` beside it, and the ``further`` ones. The exceptions of
    two statuses are no relatives, our classes often are.
    """

    code: ClassVar[StatusCode] = StatusCode.FAIL
    #: What else onnxruntime answers with in these situations.
    further: ClassVar[tuple[type[Exception], ...]] = ()
    exit_code: ClassVar[ExitCode] = ExitCode.FINDINGS

    def __new__(cls, *args: Any, **details: Any) -> Self:  # noqa: ARG004 - details are __init__'s
        kind: type[Self] = _with_exception_of_status(cls)
        return super().__new__(kind, *args)

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


# --- package --------------------------------------------------------------------------------------


class PackageError(OrtpkgError):
    """A package cannot be read, or is not what it says.

    Attributes:
        path: the package root, or the file concerned.
    """

    exit_code = ExitCode.PACKAGE

    def __init__(self, message: str, *, path: Path | str | None = None) -> None:
        super().__init__(message)
        self.path = path


class PackageNotFoundError(PackageError):
    """There is no package at that path."""

    code = StatusCode.NO_SUCHFILE


class PackageFormatError(PackageError):
    """Documents of the package are not valid; carries every finding, not only the first.

    Attributes:
        findings: all errors (and the warnings seen with them), in document order.
        document, pointer: of the first error.
    """

    def __init__(
        self, message: str, *, findings: Sequence[Finding] = (), path: Path | str | None = None
    ) -> None:
        super().__init__(message, path=path)
        self.findings: tuple[Finding, ...] = tuple(findings)

    @property
    def document(self) -> str:
        """File of the first error, relative to the package root; "" where no finding is known."""
        return next(
            (finding.document for finding in self.findings if finding.severity is Severity.ERROR),
            "",
        )

    @property
    def pointer(self) -> str:
        """JSON pointer (RFC 6901) of the first error; "" is the whole document."""
        return next(
            (finding.pointer for finding in self.findings if finding.severity is Severity.ERROR), ""
        )

    @classmethod
    def from_findings(cls, findings: Sequence[Finding], *, path: Path | str) -> PackageFormatError:
        """One error whose message has each error of ``findings`` (at least one) on a line, and no
        warnings.
        """
        errors = [finding for finding in findings if finding.severity is Severity.ERROR]
        lines = "\n".join(f"  {finding}" for finding in errors)
        count = "1 problem" if len(errors) == 1 else f"{len(errors)} problems"
        return cls(
            f"{quoted(path)} is not a valid model package: {count}\n{lines}",
            findings=findings,
            path=path,
        )


class UnsupportedSchemaVersionError(PackageFormatError):
    """The package was written for a newer major version of its format."""

    code = StatusCode.NOT_IMPLEMENTED


class ResultUnreadableError(PackageError):
    """A command has done its work, and the package at ``path`` is what it made; only reading it
    afterwards failed.
    """

    exit_code = ExitCode.DONE


class PathEscapesPackageError(PackageError):
    """A path that the package names leaves the package, or could on another operating system.

    Attributes:
        reference: the text as the package has it.
    """

    code = StatusCode.INVALID_ARGUMENT

    def __init__(self, message: str, *, reference: str, path: Path | str | None = None) -> None:
        super().__init__(message, path=path)
        self.reference = reference


class DigestMismatchError(PackageError):
    """A file's bytes are not those that ``digests.json`` records.

    Attributes:
        file: relative to the package.
        expected, actual: SHA-256 of its bytes, as recorded and as they are.
    """

    def __init__(
        self, message: str, *, file: str, expected: str, actual: str, path: Path | str | None = None
    ) -> None:
        super().__init__(message, path=path)
        self.file = file
        self.expected = expected
        self.actual = actual


# --- selection ------------------------------------------------------------------------------------


class SelectionError(OrtpkgError):
    """No variant could be chosen."""

    exit_code = ExitCode.NO_SUITABLE_VARIANT


class UnknownComponentError(SelectionError):
    """The named component or variant does not exist, or none was named where there are several.

    Attributes:
        known: the names that would have been right.
    """

    code = StatusCode.INVALID_ARGUMENT
    exit_code = ExitCode.USAGE

    def __init__(self, message: str, *, known: Sequence[str]) -> None:
        super().__init__(message)
        self.known = tuple(known)


class NoSuitableVariantError(SelectionError):
    """Every variant was rejected; ``selection`` says why, one by one.

    Attributes:
        selection: an :class:`ortpkg.selection.verdict.Selection`; None where there is no variant.
    """

    def __init__(self, message: str, *, selection: Any = None) -> None:
        super().__init__(message)
        self.selection = selection


# --- model ----------------------------------------------------------------------------------------


class ModelError(OrtpkgError):
    """A model file is wrong or cannot be run.

    Attributes:
        node_name: the node concerned, where there is one.
    """

    code = StatusCode.FAIL
    exit_code = ExitCode.MODEL

    def __init__(self, message: str, *, node_name: str | None = None) -> None:
        super().__init__(message)
        self.node_name = node_name


class ModelFileError(ModelError):
    """The model file, or a file with its external data, is missing, empty, truncated or not
    ONNX.
    """

    code = StatusCode.INVALID_PROTOBUF
    further: ClassVar[tuple[type[Exception], ...]] = (InvalidArgument, Fail)


class ModelNotFoundError(ModelFileError):
    """There is no model file at that path."""

    code = StatusCode.NO_SUCHFILE
    further: ClassVar[tuple[type[Exception], ...]] = ()


class ExternalDataNotFoundError(ModelNotFoundError):
    """A file that a model names for its data is not there."""

    further = (Fail,)


class AdapterFileError(ModelFileError, RuntimeError):
    """The file of a LoRA adapter is missing, damaged or none."""


class InvalidGraphError(ModelError, InvalidArgument, Fail):
    """The graph breaks a rule of ONNX: a cycle, a missing value, a wrong type."""

    code = StatusCode.INVALID_GRAPH


class KernelNotFoundError(ModelError, OrtNotImplemented, InvalidGraph, Fail):
    """No execution provider of the session has a kernel for a node.

    Its status is FAIL, as ONNX Runtime's design documents have it (ADR 15). onnxruntime says
    NOT_IMPLEMENTED, and ``except NotImplemented`` catches it all the same.

    Attributes:
        op_type, opset: the operator, and the opset of its domain that the model imports.
        types: of the node's inputs, where these are what no kernel takes.
    """

    def __init__(
        self,
        message: str,
        *,
        op_type: str,
        opset: int,
        types: Sequence[str] = (),
        node_name: str | None = None,
    ) -> None:
        super().__init__(message, node_name=node_name)
        self.op_type = op_type
        self.opset = opset
        self.types = tuple(types)


# --- execution providers --------------------------------------------------------------------------


class ExecutionProviderError(OrtpkgError):
    """An execution provider failed.

    Attributes:
        ep_name: which one.
    """

    code = StatusCode.EP_FAIL
    exit_code = ExitCode.BACKEND

    def __init__(self, message: str, *, ep_name: str) -> None:
        super().__init__(message)
        self.ep_name = ep_name


class UnknownExecutionProviderError(ExecutionProviderError, RuntimeError):
    """No execution provider of that name is available here."""

    code = StatusCode.INVALID_ARGUMENT


class CompileError(ExecutionProviderError):
    """An execution provider could not compile a partition that it had claimed."""


class EpContextError(ExecutionProviderError):
    """An EPContext node's context is missing, stale, damaged or foreign (EPContext design:
    INVALID_GRAPH).

    Attributes:
        source: key of the execution provider that made the context; None where that is not known.
        partition_name: which part of the model it is of; "" for several.
    """

    code = StatusCode.INVALID_GRAPH

    def __init__(
        self, message: str, *, ep_name: str, source: str | None = None, partition_name: str = ""
    ) -> None:
        super().__init__(message, ep_name=ep_name)
        self.source = source
        self.partition_name = partition_name


class EpContextWriteError(ExecutionProviderError):
    """What was compiled cannot be written: the disk is full, the folder is not to be written, the
    name is taken.
    """


# --- session --------------------------------------------------------------------------------------


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


# --- the rest -------------------------------------------------------------------------------------


class AuthoringError(OrtpkgError):
    """A change to a package was refused: a name is taken, or inputs and outputs do not fit; nothing
    was changed.
    """

    exit_code = ExitCode.PACKAGE


class PackageBusyError(AuthoringError):
    """Another process is changing the package and did not finish in time; nothing was changed.

    Attributes:
        holder: what is known of that process, for people.
    """

    def __init__(self, message: str, *, holder: str) -> None:
        super().__init__(message)
        self.holder = holder


class ArchiveError(OrtpkgError):
    """An archive is damaged, or breaks a limit."""

    exit_code = ExitCode.PACKAGE


class TrustRequiredError(OrtpkgError):
    """The package asks for something that only a trusted package may have.

    Attributes:
        what: the option or file concerned.
    """

    exit_code = ExitCode.TRUST

    def __init__(self, message: str, *, what: str) -> None:
        super().__init__(message)
        self.what = what


class PlanVerificationError(OrtpkgError):
    """Two live values share bytes, or a plan breaks another invariant: a bug of ours, never of the
    model.
    """

    exit_code = ExitCode.MODEL
