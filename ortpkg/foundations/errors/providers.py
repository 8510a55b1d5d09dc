"""Errors of execution providers."""

from __future__ import annotations

from ortpkg.foundations.errors.base import OrtpkgError
from ortpkg.foundations.errors.codes import ExitCode, StatusCode


class ExecutionProviderError(OrtpkgError):
    """An execution provider failed.

    Attributes:
        ep_name: Name of the execution provider.
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


class NoNodeTakenError(ExecutionProviderError):
    """No node of the model runs on the execution providers that the caller named."""


class EpContextError(ExecutionProviderError):
    """The context of an EPContext node is missing, stale, damaged or foreign.

    Its status is INVALID_GRAPH.

    Attributes:
        source: Key of the execution provider that made the context, or None if unknown.
        partition_name: Partition of the model; "" for several.
    """

    code = StatusCode.INVALID_GRAPH

    def __init__(
        self, message: str, *, ep_name: str, source: str | None = None, partition_name: str = ""
    ) -> None:
        super().__init__(message, ep_name=ep_name)
        self.source = source
        self.partition_name = partition_name


class EpContextWriteError(ExecutionProviderError):
    """Compiled content cannot be written.

    The disk is full, the folder forbids it, or the name is in use.
    """
