"""Signed content of a package's signature: an in-toto statement with the SHA-256 of every file.

Source: in-toto Statement v1; the predicate is that of the OpenSSF model signing specification,
``https://model_signing/signature/v1.0``, with one resource per file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.foundations.documents.document_limits import DocumentLimits
from ortpkg.foundations.documents.json_documents import parse_document
from ortpkg.foundations.errors import PackageFormatError, SignatureError, quoted
from ortpkg.package.integrity.digests import check_recordable
from ortpkg.package.sidecar import SIGNATURE_FILE, SIGNATURES_DIRECTORY

PAYLOAD_TYPE = "application/vnd.in-toto+json"
_STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
_PREDICATE_TYPE = "https://model_signing/signature/v1.0"
_SHA256 = re.compile("[0-9a-f]{64}")
_MOST_RESOURCES = 100_001  # the files of digests.json, and digests.json itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Files of a package as they are signed.

    Attributes:
        name: The signer's name of the package, for people.
        files: SHA-256 of every signed file, by path.
    """

    name: str
    files: Mapping[str, str]


def dump_statement(statement: Statement) -> bytes:
    """Return the payload of a signature; equal files give equal bytes."""
    # Files in the order of model-signing: compared folder by folder.
    paths = sorted(statement.files, key=lambda path: path.split("/"))
    resources = [
        {"name": path, "algorithm": "sha256", "digest": statement.files[path]} for path in paths
    ]
    document = {
        "_type": _STATEMENT_TYPE,
        "subject": [
            {
                "name": statement.name,
                "digest": {"sha256": _root_digest(statement.files[path] for path in paths)},
            }
        ],
        "predicateType": _PREDICATE_TYPE,
        "predicate": {
            "serialization": {
                "method": "files",
                "hash_type": "sha256",
                "allow_symlinks": False,
                "ignore_paths": [SIGNATURE_FILE, SIGNATURES_DIRECTORY],
            },
            "resources": resources,
        },
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def parse_statement(payload: bytes, *, where: str) -> Statement:
    """Parse the statement in a payload whose signature is valid; its signer may be unknown.

    ``where`` names the signature in messages.

    Raises:
        SignatureError: It is another kind of statement, a resource is not a plain path or is listed
            twice, a digest is not SHA-256, or the overall digest is wrong.
    """
    limits = DocumentLimits(nbytes=len(payload), depth=16, values=8 * _MOST_RESOURCES)
    try:
        document = parse_document(payload, document="the statement", limits=limits)
    except PackageFormatError as error:
        raise _wrong(where, f"its statement is no JSON document: {error}") from error
    if document.get("_type") != _STATEMENT_TYPE:
        kind = quoted(document.get("_type"))
        raise _wrong(where, f"its statement is of type {kind}, not {_STATEMENT_TYPE}")
    if document.get("predicateType") != _PREDICATE_TYPE:
        kind = quoted(document.get("predicateType"))
        raise _wrong(where, f"its predicate is of type {kind}; known is {_PREDICATE_TYPE}")
    name, digest = _subject(document, where)
    files = dict(_resources(document, where))
    if digest != _root_digest(files.values()):
        raise _wrong(where, "the digest of its subject is not that of its resources")
    return Statement(name=name, files=files)


def _subject(document: Mapping[str, Any], where: str) -> tuple[str, str]:
    subjects = document.get("subject")
    if not isinstance(subjects, list) or len(subjects) != 1 or not isinstance(subjects[0], dict):
        raise _wrong(where, "its statement has not exactly one subject")
    name, digests = subjects[0].get("name"), subjects[0].get("digest")
    digest = digests.get("sha256") if isinstance(digests, dict) else None
    if not isinstance(name, str) or not isinstance(digest, str):
        raise _wrong(where, "its subject has no name, or no SHA-256")
    return name, digest


def _resources(document: Mapping[str, Any], where: str) -> Iterator[tuple[str, str]]:
    predicate = document.get("predicate")
    if not isinstance(predicate, dict):
        raise _wrong(where, "its predicate is no object")
    serialization, resources = predicate.get("serialization"), predicate.get("resources")
    if not isinstance(serialization, dict) or serialization.get("method") != "files":
        raise _wrong(where, "it does not sign whole files (serialization method files)")
    if not isinstance(resources, list) or not 0 < len(resources) <= _MOST_RESOURCES:
        raise _wrong(where, f"its resources are not a list of 1 to {_MOST_RESOURCES}")
    names = set()
    for number, resource in enumerate(resources):
        name, digest = _resource(resource, where, number)
        if name in names:
            raise _wrong(where, f"it lists {quoted(name)} twice")
        names.add(name)
        yield name, digest


def _resource(resource: Any, where: str, number: int) -> tuple[str, str]:
    entry = resource if isinstance(resource, dict) else {}
    name, digest = entry.get("name"), entry.get("digest")
    if not isinstance(name, str) or not isinstance(digest, str):
        raise _wrong(where, f"resource {number} has no name, or no digest")
    if entry.get("algorithm") != "sha256" or _SHA256.fullmatch(digest) is None:
        raise _wrong(where, f"the digest of {quoted(name)} is no SHA-256 in lower-case hex digits")
    try:
        check_recordable(Path(), [name])
    except PackageFormatError as error:
        raise _wrong(
            where, f"resource {quoted(name)} is not a plain relative path with '/'"
        ) from error
    return name, digest


def _root_digest(digests: Iterable[str]) -> str:
    """Return the SHA-256 of the concatenated digests of the files."""
    whole = hashlib.sha256()
    for digest in digests:
        whole.update(bytes.fromhex(digest))
    return whole.hexdigest()


def _wrong(where: str, what: str) -> SignatureError:
    return SignatureError(f"{where} is not accepted: {what}")
