"""Errors of packages and of the selection of variants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ortpkg.foundations.errors.base import OrtpkgError
from ortpkg.foundations.errors.codes import ExitCode, StatusCode
from ortpkg.foundations.errors.finding import Finding, Severity, quoted


class PackageError(OrtpkgError):
    """A package cannot be read, or contradicts itself.

    Attributes:
        path: Root of the package, or the file concerned.
    """

    exit_code = ExitCode.PACKAGE

    def __init__(self, message: str, *, path: Path | str | None = None) -> None:
        super().__init__(message)
        self.path = path


class PackageNotFoundError(PackageError):
    """There is no package at that path."""

    code = StatusCode.NO_SUCHFILE


class PackageFormatError(PackageError):
    """Documents of the package are not valid; the error has all findings, not only the first.

    Attributes:
        findings: All errors (and warnings found with them), in document order.
        document, pointer: Position of the first error.
    """

    def __init__(
        self, message: str, *, findings: Sequence[Finding] = (), path: Path | str | None = None
    ) -> None:
        super().__init__(message, path=path)
        self.findings: tuple[Finding, ...] = tuple(findings)

    @property
    def document(self) -> str:
        """File of the first error, relative to the package root; "" without findings."""
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
        """Return one error with a line for each error of ``findings``, at least one.

        None for warnings.
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
    """A command made the package at ``path`` as it should; only reading it afterwards failed."""

    exit_code = ExitCode.DONE


class PathEscapesPackageError(PackageError):
    """A path in the package leaves the package, or could on another operating system.

    Attributes:
        reference: The text in the package.
    """

    code = StatusCode.INVALID_ARGUMENT

    def __init__(self, message: str, *, reference: str, path: Path | str | None = None) -> None:
        super().__init__(message, path=path)
        self.reference = reference


class DigestMismatchError(PackageError):
    """The bytes of a file differ from the record in ``digests.json``.

    Attributes:
        file: Path relative to the package.
        expected, actual: Recorded and actual SHA-256.
    """

    def __init__(
        self, message: str, *, file: str, expected: str, actual: str, path: Path | str | None = None
    ) -> None:
        super().__init__(message, path=path)
        self.file = file
        self.expected = expected
        self.actual = actual


class TrustRequiredError(OrtpkgError):
    """The package asks for something that only a trusted package may have.

    Attributes:
        what: Option or file concerned.
    """

    exit_code = ExitCode.TRUST

    def __init__(self, message: str, *, what: str) -> None:
        super().__init__(message)
        self.what = what


class SelectionError(OrtpkgError):
    """No variant could be chosen."""

    exit_code = ExitCode.NO_SUITABLE_VARIANT


class UnknownComponentError(SelectionError):
    """The named component or variant does not exist, or none of several was named.

    Attributes:
        valid_names: Names that would have been right.
    """

    code = StatusCode.INVALID_ARGUMENT
    exit_code = ExitCode.USAGE

    def __init__(self, message: str, *, valid_names: Sequence[str]) -> None:
        super().__init__(message)
        self.valid_names = tuple(valid_names)


class NoSuitableVariantError(SelectionError):
    """Every variant was rejected; ``selection`` has the reason of each.

    Attributes:
        selection: An :class:`ortpkg.selection.matching.verdict.Selection`; None if there is no
            variant.
    """

    def __init__(self, message: str, *, selection: Any = None) -> None:
        super().__init__(message)
        self.selection = selection


class StalePackageError(PackageError):
    """A package to be published has variants that were made from other models than it has.

    Attributes:
        variants: Names of these variants.
    """

    def __init__(self, message: str, *, variants: Sequence[str], path: Path | str) -> None:
        super().__init__(message, path=path)
        self.variants = tuple(variants)


class StaleVariantError(NoSuitableVariantError):
    """The variant was made from another model than the one beside it, such as an older version.

    Attributes:
        variant, source: Its name, and that of the variant that it was made from.
    """

    def __init__(self, message: str, *, variant: str, source: str, selection: Any = None) -> None:
        super().__init__(message, selection=selection)
        self.variant = variant
        self.source = source
