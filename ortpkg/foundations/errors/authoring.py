"""Errors of writing a package or an archive."""

from __future__ import annotations

from ortpkg.foundations.errors.base import OrtpkgError
from ortpkg.foundations.errors.codes import ExitCode


class AuthoringError(OrtpkgError):
    """A change to a package was refused: a name is taken, or inputs and outputs do not fit.

    Nothing was changed.
    """

    exit_code = ExitCode.PACKAGE


class PackageBusyError(AuthoringError):
    """Another process is changing the package and did not finish in time; nothing was changed.

    Attributes:
        holder: Description of that process.
    """

    def __init__(self, message: str, *, holder: str) -> None:
        super().__init__(message)
        self.holder = holder


class ArchiveError(OrtpkgError):
    """An archive is damaged, or breaks a limit."""

    exit_code = ExitCode.PACKAGE
