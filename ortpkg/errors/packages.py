"""What is wrong with a package, or with choosing a variant of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ortpkg.errors.base import OrtpkgError
from ortpkg.errors.codes import ExitCode, StatusCode
from ortpkg.errors.finding import Finding, Severity, quoted


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
        """One error with a line for each error of ``findings``, at least one; none for warnings."""
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


class TrustRequiredError(OrtpkgError):
    """The package asks for something that only a trusted package may have.

    Attributes:
        what: the option or file concerned.
    """

    exit_code = ExitCode.TRUST

    def __init__(self, message: str, *, what: str) -> None:
        super().__init__(message)
        self.what = what


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


class StalePackageError(PackageError):
    """A package that is to be shipped has variants that were made of other models than it has.

    Attributes:
        variants: their names.
    """

    def __init__(self, message: str, *, variants: Sequence[str], path: Path | str) -> None:
        super().__init__(message, path=path)
        self.variants = tuple(variants)


class StaleVariantError(NoSuitableVariantError):
    """The variant was made of another model than the one beside it, such as an older version.

    Attributes:
        variant, source: its name, and that of the variant that it was made of.
    """

    def __init__(self, message: str, *, variant: str, source: str, selection: Any = None) -> None:
        super().__init__(message, selection=selection)
        self.variant = variant
        self.source = source
