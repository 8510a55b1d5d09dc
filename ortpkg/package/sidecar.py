"""Read ortpkg's own documents beside the manifest: pipeline.json and samples/samples.json."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from ortpkg.foundations.documents.document_schemas import check_schema
from ortpkg.foundations.documents.finding_collector import FindingCollector
from ortpkg.foundations.documents.json_documents import read_document
from ortpkg.foundations.errors import PackageFormatError
from ortpkg.package.paths.disk_places import PathKind, list_names
from ortpkg.package.paths.path_resolver import PathRefusedError, PathResolver
from ortpkg.package.rules import SCHEMA_VERSION

DIGESTS_FILE = "digests.json"
PIPELINE = "pipeline.json"
SAMPLES_DIRECTORY = "samples"
SAMPLES = f"{SAMPLES_DIRECTORY}/samples.json"
SIGNATURE_FILE = "model.sig"
#: Folder of further signatures, each named by the first 16 digits of its key's digest.
SIGNATURES_DIRECTORY = "model.sig.d"
_FURTHER_SIGNATURE = re.compile(rf"{re.escape(SIGNATURES_DIRECTORY)}/[0-9a-f]{{16}}\.sig")

_SUPPORTED_MAJOR = "1"


def has_digests(root: Path) -> bool:
    """Return True if the package has a digests.json; otherwise its files cannot be verified."""
    return os.path.lexists(root / DIGESTS_FILE)


def is_signature_file(path: str) -> bool:
    """Return True if ``path``, relative to the root, is a signature of the package.

    Like digests.json, a signature is not recorded, and no reader of packages looks at it.
    """
    return path == SIGNATURE_FILE or _FURTHER_SIGNATURE.fullmatch(path) is not None


def signature_names(root: Path) -> list[str]:
    """Return the signatures of the package at ``root``, relative to it, without reading them."""
    folder = root / SIGNATURES_DIRECTORY
    further = []
    if folder.is_dir() and not folder.is_symlink():
        paths = (f"{SIGNATURES_DIRECTORY}/{name}" for name in list_names(folder, PathKind.FILE))
        further = [path for path in paths if is_signature_file(path)]
    return [*([SIGNATURE_FILE] if (root / SIGNATURE_FILE).exists() else []), *further]


def samples_document(root: Path) -> dict[str, Any] | None:
    """Return samples/samples.json of the package at ``root`` as valid JSON; None if there is none.

    Files that it names are not checked.

    Raises:
        PackageFormatError: it breaks its schema or cannot be read.
    """
    collector = FindingCollector()
    value = read_sidecar(
        SAMPLES, schema="samples", resolver=PathResolver(root), collector=collector
    )
    if collector.has_errors:
        raise PackageFormatError.from_findings(collector.findings, path=root / SAMPLES)
    return value


def read_sidecar(
    name: str, *, schema: str, resolver: PathResolver, collector: FindingCollector
) -> dict[str, Any] | None:
    """Return the document at ``name`` (relative to the root) if it exists and is valid; else None.

    Problems go to ``collector``; a missing document is not one.
    """
    try:
        resolved = resolver.resolve(name)
        if resolved.kind is PathKind.MISSING:
            return None
        value = read_document(resolved.path, document=name)
    except PathRefusedError as error:
        collector.extend([error.finding(name)])
        return None
    except PackageFormatError as error:
        collector.extend(error.findings)
        return None
    version = value.get("schema_version")
    if (
        isinstance(version, str)
        and (major := version.partition(".")[0]).isdecimal()
        and major != _SUPPORTED_MAJOR
    ):
        message = f"has schema_version {version[:20]}, this ortpkg knows {_SUPPORTED_MAJOR}.x"
        collector.add(SCHEMA_VERSION, name, message, pointer="/schema_version")
        return None
    findings = check_schema(value, schema, document=name)
    collector.extend(findings)
    return None if findings else value
