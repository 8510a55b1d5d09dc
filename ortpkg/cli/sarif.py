"""Findings as SARIF 2.1.0, the OASIS format that code scanning services read."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ortpkg.authoring.rule_registry import RULES
from ortpkg.foundations.documents.document_limits import DEFAULT_LIMITS
from ortpkg.foundations.documents.document_rules import Rule
from ortpkg.foundations.documents.json_positions import Position, find_positions
from ortpkg.foundations.errors import Finding, PackageError, Severity
from ortpkg.foundations.version import __version__
from ortpkg.package.paths.disk_places import PathKind
from ortpkg.package.paths.path_resolver import PathResolver

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_BASE = "PACKAGE"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning"}


def sarif_log(root: Path, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return one run of ``validate`` over the package at ``root``.

    Artifacts are named relative to the package.
    """
    rules = [
        RULES[identifier]
        for identifier in RULES
        if any(finding.rule == identifier for finding in findings)
    ]
    positions = _positions(root, findings)
    indices = {rule.id: index for index, rule in enumerate(rules)}
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "ortpkg",
                        "version": __version__,
                        "rules": [_reporting_descriptor(rule) for rule in rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {_BASE: {"uri": f"{root.resolve().as_uri()}/"}},
                "results": [_result(finding, indices, positions) for finding in findings],
            }
        ],
    }


def _reporting_descriptor(rule: Rule) -> dict[str, Any]:
    text = f"{rule.explanation}\n\nExample: {rule.example}\n\nWhat to do: {rule.remedy}."
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.explanation},
        "help": {"text": text},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"formats": list(rule.formats), "targets": list(rule.targets)},
    }


def _result(
    finding: Finding, indices: Mapping[str, int], positions: Mapping[tuple[str, str], Position]
) -> dict[str, Any]:
    location: dict[str, Any] = {
        "artifactLocation": {"uri": quote(finding.document), "uriBaseId": _BASE}
    }
    position = positions.get((finding.document, finding.pointer))
    if position is not None:
        location["region"] = {"startLine": position.line, "startColumn": position.column}
    sarif_location: dict[str, Any] = {"physicalLocation": location}
    if finding.pointer:
        sarif_location["logicalLocations"] = [
            {"fullyQualifiedName": finding.pointer, "kind": "member"}
        ]
    message = f"{finding.message} ({finding.remedy})" if finding.remedy else finding.message
    result = {
        "ruleId": finding.rule,
        "ruleIndex": indices[finding.rule],
        "level": _LEVELS[finding.severity],
        "message": {"text": message},
        "locations": [sarif_location],
        "partialFingerprints": {"ortpkgFinding/v1": _fingerprint(finding)},
    }
    return result | ({"properties": {"target": finding.target}} if finding.target else {})


def _fingerprint(finding: Finding) -> str:
    """Return the same text for the same finding in a later run, wherever it is then."""
    parts = (finding.rule, finding.target, finding.document, finding.pointer, finding.message)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _positions(root: Path, findings: Iterable[Finding]) -> dict[tuple[str, str], Position]:
    """Return the position in the text by document and pointer, if the document can be read."""
    pointers: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for finding in findings:
        pointers[finding.document][finding.pointer] = None
    resolver = PathResolver(root)
    return {
        (document, pointer): position
        for document, wanted_pointers in pointers.items()
        if document.endswith(".json") and (text := _read_text(resolver, document)) is not None
        for pointer, position in find_positions(text, list(wanted_pointers)).items()
    }


def _read_text(resolver: PathResolver, document: str) -> str | None:
    try:
        resolved = resolver.resolve(document)
        if resolved.kind is not PathKind.FILE:
            return None
        with resolved.path.open("rb") as file:
            data = file.read(DEFAULT_LIMITS.nbytes + 1)
        return data.decode("utf-8-sig") if len(data) <= DEFAULT_LIMITS.nbytes else None
    except (PackageError, OSError, UnicodeDecodeError):
        return None
