"""Document of a machine profile: reads a file as an object that its schema allows.

Errors are ProfileErrors that name the file, the location as a JSON pointer, and a correction.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

from ortpkg.foundations.documents.document_limits import DocumentLimits
from ortpkg.foundations.documents.document_schemas import check_schema
from ortpkg.foundations.documents.json_documents import parse_document, read_bytes
from ortpkg.foundations.documents.newer_documents import made_by_newer
from ortpkg.foundations.errors import Finding, PackageFormatError, ProfileError, quoted, unquoted

_LIMITS = DocumentLimits(nbytes=1 << 20, depth=32, number_length=64)
_MOST_FINDINGS = 10


def read_profile_document(path: Path) -> dict[str, Any]:
    """Return the object in the profile ``path``.

    Raises:
        ProfileError: it cannot be read or breaks the schema.
    """
    try:
        data = read_bytes(path, document=path.name, most_nbytes=_LIMITS.nbytes)
    except PackageFormatError as error:
        raise _profile_error(path, error.findings) from error
    return parse_profile_document(data, path)


def parse_profile_document(data: bytes, file: Path | str) -> dict[str, Any]:
    """Return the object in a profile's bytes; ``file`` is their name in messages."""
    try:
        value = parse_document(data, document=str(file), limits=_LIMITS)
    except PackageFormatError as error:
        raise _profile_error(file, error.findings) from error
    if value.get("kind") == "devices":
        fail_at(
            file,
            "/kind",
            "this is the output of `ortpkg devices --json`; `ortpkg devices --export FILE` writes a"
            " profile",
        )
    if findings := check_schema(value, "machine_profile", document=str(file)):
        if newer := made_by_newer(value):
            fail_at(file, "/schema_version", newer)
        raise _profile_error(file, findings)
    return value


def fail_at(file: Path | str, pointer: str, message: str) -> NoReturn:
    """Raise the ProfileError for one location in the document."""
    raise _error(file, [f"{pointer}: {message}"], pointer)


def _profile_error(file: Path | str, findings: tuple[Finding, ...]) -> ProfileError:
    return _error(
        file,
        [
            f"{unquoted(finding.pointer) or 'the document'}: {finding.message} ({finding.remedy})"
            for finding in findings[:_MOST_FINDINGS]
        ],
        findings[0].pointer,
    )


def _error(file: Path | str, lines: list[str], pointer: str) -> ProfileError:
    what = "is not a machine profile, which `ortpkg devices --export FILE` writes"
    message = "\n".join([f"{quoted(file)} {what}:", *(f"  {line}" for line in lines)])
    return ProfileError(message, file=file, pointer=pointer)
