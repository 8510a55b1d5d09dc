"""Rules for every document, and the definition of a rule.

Ids never change meaning and are never reused: users write them into scripts and suppressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import NamedTuple

from ortpkg.foundations.errors import Severity

#: Formats by their names in ``PackageFormat``, which this module must not import.
ALL_FORMATS = ("metadata", "component", "universal")


class Rule(NamedTuple):
    """A rule for packages.

    Attributes:
        id: "ORT" and three digits.
        title: the rule in a few words.
        explanation: the consequence of breaking the rule.
        remedy: general advice, as a clause; a finding may have more precise advice.
        example: a violation, in a line or two.
        severity: of the rule's findings.
        formats: the formats that it applies to, as in ``PackageFormat``.
        targets: it is checked only if ``validate`` is asked about one of these; empty for always.
    """

    id: str
    title: str
    explanation: str
    remedy: str
    example: str = ""
    severity: Severity = Severity.ERROR
    formats: tuple[str, ...] = ALL_FORMATS
    targets: tuple[str, ...] = ()


def rules_among(values: Mapping[str, object]) -> tuple[Rule, ...]:
    """Return the rules among the ``values`` of a module, in the order of their ids."""
    rules = (value for value in values.values() if isinstance(value, Rule))
    return tuple(sorted(rules, key=attrgetter("id")))


DOCUMENT_UNREADABLE = Rule(
    id="ORT001",
    title="A document can be read",
    explanation=(
        "A document that the package needs is missing, is not a regular file, or may not be read."
    ),
    remedy="restore the file, or correct its permissions",
    example="manifest.json is a folder, or its owner alone may read it",
)
DOCUMENT_TOO_LARGE = Rule(
    id="ORT002",
    title="A document stays within the limits",
    explanation=(
        "A document is larger, nested deeper, or holds more or longer values than any honest"
        " package needs. The limits keep a hostile document from exhausting memory or the stack."
    ),
    remedy="move bulk data out of the document into a file of its own",
    example='{"a": {"a": {"a": ... 100,000 times',
)
DOCUMENT_SYNTAX = Rule(
    id="ORT003",
    title="A document is JSON in UTF-8",
    explanation=(
        "RFC 8259 JSON only: no comments, no trailing commas or text, no NaN or Infinity, no number"
        " that overflows a double, no lone surrogates. Readers disagree about everything else."
    ),
    remedy="write the document with a JSON library",
    example='{"model_name": "m",}',
)
DUPLICATE_KEY = Rule(
    id="ORT004",
    title="An object has each key once",
    explanation=(
        "Readers disagree about which of two equal keys counts, so the package means different"
        " things to them."
    ),
    remedy="remove one of the two",
    example='{"model_name": "a", "model_name": "b"}',
)
DOCUMENT_SHAPE = Rule(
    id="ORT005",
    title="A document keeps its schema",
    explanation=(
        "A value is missing, has the wrong type, or is not one that the document's JSON Schema"
        " allows."
    ),
    remedy="write what the schema in schemas/ describes",
    example='{"model_name": 7}',
)
