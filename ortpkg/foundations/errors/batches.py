"""Errors that end a batch."""

from __future__ import annotations

from ortpkg.foundations.errors.base import OrtpkgError
from ortpkg.foundations.errors.codes import ExitCode, StatusCode


class RowFailedError(OrtpkgError):
    """A row cannot be read or run, and failed rows are not collected.

    Attributes:
        row_id: Number of the row among all rows of the input.
        file: Its file.
    """

    code = StatusCode.RUNTIME_EXCEPTION
    exit_code = ExitCode.MODEL

    def __init__(self, message: str, *, row_id: int, file: str) -> None:
        super().__init__(message)
        self.row_id = row_id
        self.file = file


class ClusterError(OrtpkgError):
    """A cluster that a batch was to run on does not start, or lost its driver's connection."""

    exit_code = ExitCode.BACKEND
