"""Read and write JSON documents of a package.

A package may come from a stranger: :mod:`ortpkg.foundations.documents.json_limits` defines what is
accepted.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from ortpkg.foundations.documents.document_limits import DEFAULT_LIMITS, DocumentLimits
from ortpkg.foundations.documents.document_rules import (
    DOCUMENT_SHAPE,
    DOCUMENT_TOO_LARGE,
    DOCUMENT_UNREADABLE,
)
from ortpkg.foundations.documents.finding_collector import fail, finding
from ortpkg.foundations.documents.frozen import thaw
from ortpkg.foundations.documents.json_limits import CountedJson, parse_counted_json
from ortpkg.foundations.errors import PackageFormatError, quoted

_FOR_READING = os.O_RDONLY | getattr(os, "O_BINARY", 0)


def read_document(
    path: Path | str, *, document: str | None = None, limits: DocumentLimits = DEFAULT_LIMITS
) -> dict[str, Any]:
    """Read the JSON object in ``path``.

    Args:
        path: the file.
        document: its name in findings, normally relative to the package root; None for the file's
            name.
        limits: of the document.

    Raises:
        PackageFormatError: the file cannot be read, exceeds a limit, or is not a JSON object; says
            what and where.
    """
    name = document if document is not None else Path(path).name
    return require_object(read_json(path, document=name, limits=limits), name, path)


def read_json(path: Path | str, *, document: str, limits: DocumentLimits = DEFAULT_LIMITS) -> Any:
    """Read the JSON value, of any type, in ``path``, like :func:`read_document`."""
    return read_counted_json(path, document=document, limits=limits).value


def read_counted_json(
    path: Path | str, *, document: str, limits: DocumentLimits = DEFAULT_LIMITS
) -> CountedJson:
    """Read like :func:`read_json`, and count the values of the document."""
    try:
        data = read_bytes(path, document=document, most_nbytes=limits.nbytes)
        return parse_counted_json(data, document, limits)
    except PackageFormatError as error:
        error.path = Path(path)
        raise


def parse_document(
    data: bytes, *, document: str, limits: DocumentLimits = DEFAULT_LIMITS
) -> dict[str, Any]:
    """Parse bytes that the caller already has, like :func:`read_document`."""
    return require_object(parse_counted_json(data, document, limits).value, document)


def dump_document(value: Any) -> bytes:
    """Return JSON in the form of ortpkg and onnxruntime: indented by two, with a last newline.

    Keys are in the order of the mapping.

    Raises:
        ValueError: ``value`` is not a JSON value: a NaN, an infinity, or text that is not
            well-formed.
    """
    text = json.dumps(thaw(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        line = text[text.rfind("\n", 0, error.start) + 1 : error.end].strip()
        raise ValueError(f"{quoted(line)} is not well-formed Unicode") from error


def read_bytes(path: Path | str, *, document: str, most_nbytes: int) -> bytes:
    """Return the bytes of the file ``path``; PackageFormatError if that fails."""
    try:
        # Checked before it is opened: opening a FIFO would wait for ever.
        status = os.stat(path)  # noqa: PTH116  # half the cost of Path.stat, and every session does this
        if not stat.S_ISREG(status.st_mode):
            remedy = "put the JSON file there"
            fail(DOCUMENT_UNREADABLE, document, "is not a regular file", remedy=remedy)
        descriptor = os.open(path, _FOR_READING)  # as above
        try:
            # One byte more shows that the file grew; read() allocates as much as it is asked for.
            data = os.read(descriptor, min(status.st_size, most_nbytes) + 1)
            while len(data) != status.st_size and len(data) <= most_nbytes:
                if not (more := os.read(descriptor, most_nbytes + 1 - len(data))):
                    break
                data += more
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        fail(DOCUMENT_UNREADABLE, document, "does not exist", remedy="add the file")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        fail(DOCUMENT_UNREADABLE, document, f"cannot be read: {reason}")
    if len(data) > most_nbytes:
        fail(DOCUMENT_TOO_LARGE, document, f"is larger than {most_nbytes} bytes")
    return data


def require_object(value: Any, document: str, path: Path | str | None = None) -> dict[str, Any]:
    """Return ``value`` if it is a JSON object; otherwise raise PackageFormatError."""
    if not isinstance(value, dict):
        problem = finding(
            DOCUMENT_SHAPE, document, "is not a JSON object", remedy="put everything into {...}"
        )
        raise PackageFormatError(str(problem), findings=(problem,), path=path)
    return value
