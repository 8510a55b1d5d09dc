"""Check documents against the JSON Schemas in ``schemas/``, the only definition of validity.

jsonschema decides, and lists every finding with its place. It is slow to import, so a faster
validator of the same files is asked first, and only its "valid" counts. A test checks that both
agree and that the schemas keep to keywords that both implement.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs

from ortpkg.foundations.documents.document_rules import DOCUMENT_SHAPE
from ortpkg.foundations.documents.finding_collector import finding, json_pointer
from ortpkg.foundations.errors import Finding, quoted, unquoted
from ortpkg.foundations.names import did_you_mean

if TYPE_CHECKING:
    from jsonschema import ValidationError

_MOST_FINDINGS = 1000  # a document with more is not an accident


@cache
def schemas_directory() -> Path:
    """Return the directory of the schemas: in the package in a wheel, beside it in a checkout.

    Raises:
        FileNotFoundError: the installation is not complete.
    """
    package = Path(__file__).resolve().parents[2]
    for directory in (package / "schemas", package.parent / "schemas"):
        if (directory / "manifest.schema.json").is_file():
            return directory
    raise FileNotFoundError(
        f"the JSON Schemas of ortpkg are missing beside {package}: install ortpkg again"
    )


@cache
def schema_text(name: str) -> str:
    """Return the JSON text of the schema ``schemas/<name>.schema.json``."""
    return (schemas_directory() / f"{name}.schema.json").read_text(encoding="utf-8")


def load_schema(name: str) -> dict[str, Any]:
    """Return the same schema as a new value."""
    schema: dict[str, Any] = json.loads(schema_text(name))
    return schema


@cache
def _fast_validator(name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(schema_text(name))


def is_valid(value: Any, schema: str) -> bool:
    """Return True if ``value`` conforms to the schema of that name."""
    return bool(_fast_validator(schema).is_valid(value))


def check_schema(
    value: Any, schema: str, *, document: str, pointer: str = ""
) -> tuple[Finding, ...]:
    """Return everything in ``value`` that violates the schema of that name, in document order.

    ``pointer`` is the place of the value in the document.
    """
    if is_valid(value, schema):
        return ()
    findings = _list_findings(value, schema, document)
    return tuple(replace(violation, pointer=pointer + violation.pointer) for violation in findings)


def _list_findings(value: Any, schema: str, document: str) -> list[Finding]:
    # Imported here: it takes three times as long as everything else, and a valid package never
    # needs it.
    from jsonschema import Draft202012Validator

    errors = list(
        islice(Draft202012Validator(load_schema(schema)).iter_errors(value), _MOST_FINDINGS)
    )
    errors.sort(key=lambda error: _position(value, error.absolute_path))
    # Each missing key is an error of its own that describes all missing ones: keep the first.
    return list(dict.fromkeys(item for error in errors for item in _describe(error, document)))


def _position(value: Any, path: Iterable[str | int]) -> tuple[int, ...]:
    """Return a sort key that puts places in ``value`` into document order."""
    position = []
    for token in path:
        position.append(token if isinstance(token, int) else list(value).index(token))
        value = value[token]
    return tuple(position)


def _describe(error: ValidationError, document: str) -> Iterator[Finding]:
    path = tuple(error.absolute_path)
    instance: Any = error.instance
    schema: dict[str, Any] = error.schema if isinstance(error.schema, dict) else {}
    remedy = str(schema.get("description", ""))
    remedy = f"must be {remedy}" if remedy else ""
    match error.validator:
        case "type":
            message = f"is {_describe_value(instance)}"
        case "required":
            message = _missing(key for key in schema["required"] if key not in instance)
        case "dependentRequired":
            present = (
                needed for key, needed in schema["dependentRequired"].items() if key in instance
            )
            message = _missing(
                dict.fromkeys(key for needed in present for key in needed if key not in instance)
            )
        case "additionalProperties":
            known_keys = schema.get("properties", ())
            for key in (key for key in instance if key not in known_keys):
                message = f"key {quoted(key)} is not known{did_you_mean(key, known_keys)}"
                yield finding(
                    DOCUMENT_SHAPE,
                    document,
                    message,
                    pointer=json_pointer(*path, key),
                    remedy=f"one of {', '.join(known_keys)}",
                )
            return
        case "maxItems" | "maxProperties":
            message = f"has {len(instance)} entries, more than {error.validator_value}"
        case _:
            message = f"is {_describe_value(instance)}"
    yield finding(DOCUMENT_SHAPE, document, message, pointer=json_pointer(*path), remedy=remedy)


def _missing(keys: Iterable[str]) -> str:
    return "lacks " + " and ".join(map(quoted, keys))


def _describe_value(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return f"the boolean {str(value).lower()}"
        case int() | float():
            return f"the number {unquoted(value)}"
        case str():
            return f"the text {quoted(value)}" if value else "an empty text"
        case list():
            return "a list" if value else "an empty list"
        case _:
            return "an object" if value else "an empty object"
