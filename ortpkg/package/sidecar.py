"""Reads the documents of our own beside the manifest: pipeline.json and samples/samples.json."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from ortpkg.documents.document_schemas import check_schema
from ortpkg.documents.findings import FindingCollector
from ortpkg.documents.json_documents import read_document
from ortpkg.errors import PackageFormatError
from ortpkg.package.paths.disk_places import PathKind, list_names
from ortpkg.package.paths.path_resolver import PathRefusedError, PathResolver
from ortpkg.package.rules import SCHEMA_VERSION

DIGESTS_FILE = "digests.json"
PIPELINE = "pipeline.json"
SAMPLES_DIRECTORY = "samples"
SAMPLES = f"{SAMPLES_DIRECTORY}/samples.json"
SIGNATURE_FILE = "model.sig"
#: Where those of further signers lie, each under the first 16 digits of its key's digest.
SIGNATURES_DIRECTORY = "model.sig.d"
_FURTHER_SIGNATURE = re.compile(rf"{re.escape(SIGNATURES_DIRECTORY)}/[0-9a-f]{{16}}\.sig")

_SUPPORTED_MAJOR = "1"


def has_digests(root: Path) -> bool:
    """Whether the package at ``root`` has a digests.json; without, its files cannot be verified."""
    return os.path.lexists(root / DIGESTS_FILE)


def is_signature_file(path: str) -> bool:
    """Whether ``path``, relative to the root, is a signature of the package and not a part of it.

    Like digests.json it is not recorded, and no reader of packages looks at it.
    """
    return path == SIGNATURE_FILE or _FURTHER_SIGNATURE.fullmatch(path) is not None


def signature_names(root: Path) -> list[str]:
    """The signatures of the package at ``root``, relative to it; nothing of them is read."""
    folder = root / SIGNATURES_DIRECTORY
    further = []
    if folder.is_dir() and not folder.is_symlink():
        paths = (f"{SIGNATURES_DIRECTORY}/{name}" for name in list_names(folder, PathKind.FILE))
        further = [path for path in paths if is_signature_file(path)]
    return [*([SIGNATURE_FILE] if (root / SIGNATURE_FILE).exists() else []), *further]


def samples_document(root: Path) -> dict[str, Any] | None:
    """samples/samples.json of the package at ``root`` as JSON that keeps its schema.

    None where there is none.

    PackageFormatError where it does not. What it names is not looked at.
    """
    found = FindingCollector()
    value = read_sidecar(SAMPLES, schema="samples", resolver=PathResolver(root), found=found)
    if found.has_errors:
        raise PackageFormatError.from_findings(found.findings, path=root / SAMPLES)
    return value


def read_sidecar(
    name: str, *, schema: str, resolver: PathResolver, found: FindingCollector
) -> dict[str, Any] | None:
    """The document at ``name`` (relative to the root) if it is there and valid; None otherwise.

    What is wrong goes to ``found``; a document that is not there is not wrong.
    """
    try:
        place = resolver.resolve(name)
        if place.kind is PathKind.MISSING:
            return None
        value = read_document(place.path, document=name)
    except PathRefusedError as error:
        found.extend([error.finding(name)])
        return None
    except PackageFormatError as error:
        found.extend(error.findings)
        return None
    version = value.get("schema_version")
    if (
        isinstance(version, str)
        and (major := version.partition(".")[0]).isdecimal()
        and major != _SUPPORTED_MAJOR
    ):
        message = f"has schema_version {version[:20]}, this ortpkg knows {_SUPPORTED_MAJOR}.x"
        found.add(SCHEMA_VERSION, name, message, pointer="/schema_version")
        return None
    findings = check_schema(value, schema, document=name)
    found.extend(findings)
    return None if findings else value
