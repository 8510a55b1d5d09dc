"""Parse JSON text within limits: no document exhausts memory or has two meanings.

Accepted is RFC 8259 JSON in UTF-8 (a byte order mark is tolerated) with unique keys, finite numbers
and well-formed text. onnxruntime's reader refuses the same things, except that it lets the last of
two equal keys win.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate, islice
from typing import Any, NamedTuple, NoReturn

from ortpkg.foundations.documents.document_limits import DocumentLimits
from ortpkg.foundations.documents.document_rules import (
    DOCUMENT_SYNTAX,
    DOCUMENT_TOO_LARGE,
    DUPLICATE_KEY,
)
from ortpkg.foundations.documents.finding_collector import (
    MOST_FINDINGS,
    fail,
    finding,
    json_pointer,
)
from ortpkg.foundations.documents.json_depth import without_depth
from ortpkg.foundations.errors import Finding, PackageFormatError, quoted


class CountedJson(NamedTuple):
    """JSON value, the number of values in it (as the limit counts), its document's bytes."""

    value: Any
    value_count: int
    nbytes: int


_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_ONE_KIND_OF_BRACKET = bytes.maketrans(b"{}", b"[]")
_NO_STRUCTURE = bytes(set(range(256)) - set(b"[]{},"))
_STEPS = {ord("["): 1, ord("]"): -1, ord(","): 0}
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_counted_json(data: bytes, document: str, limits: DocumentLimits) -> CountedJson:
    """Parse ``data`` as a JSON value; ``document`` names it in findings.

    Raises:
        PackageFormatError: it is not JSON, or exceeds a limit.
    """
    if len(data) > limits.nbytes:
        fail(DOCUMENT_TOO_LARGE, document, f"is larger than {limits.nbytes} bytes")
    written = data.partition(b"\0")[0] if limits.text_after_nul else data
    try:
        text = written.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fail(DOCUMENT_SYNTAX, document, f"is not UTF-8 text: byte {error.start} is not valid")
    if not text.strip(" \t\r\n"):
        fail(DOCUMENT_SYNTAX, document, "is empty", remedy="a JSON object belongs there")
    if limits.drops_what_is_deeper:
        text, dropped = without_depth(text, limits.depth)
        written = text.encode()
        for dropped_text in dropped:
            _parse(dropped_text, document, limits)
    count = _measure(written, document, limits)
    return CountedJson(_parse(text, document, limits), count, len(data))


def _measure(data: bytes, document: str, limits: DocumentLimits) -> int:
    """Return the number of values in ``data``, after checks of number and depth.

    The checks come before the parser, which recurses and allocates. Only text outside of strings
    counts, up to the first syntax error, where the parser stops.
    """
    unescaped = (
        _ESCAPE.sub(b"", data) if b"\\" in data else data
    )  # each remaining quote delimits a string
    structure = b""
    if (quotes := unescaped.count(b'"')) <= 4 * limits.values + 2:
        outside = b"".join(unescaped.split(b'"')[::2])
        structure = outside.translate(_ONE_KIND_OF_BRACKET, _NO_STRUCTURE)
    count = structure.count(b"[") + structure.count(b",")
    # Each value has at most a key and a string, and one closing bracket.
    if max(count, (quotes - 2) / 4, (len(structure) - 1) / 2) > limits.values:
        fail(DOCUMENT_TOO_LARGE, document, f"holds more than {limits.values} values")
    if max(accumulate(map(_STEPS.__getitem__, structure)), default=0) > limits.depth:
        fail(DOCUMENT_TOO_LARGE, document, f"is nested deeper than {limits.depth} levels")
    return count


def _parse(text: str, document: str, limits: DocumentLimits) -> Any:
    repeats = False

    def make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeats
        made = dict(pairs)
        repeats = repeats or len(made) < len(pairs)
        return made

    def make_number(written: str, kind: type[int | float]) -> int | float:
        if len(written) > limits.number_length:
            message = f"number {quoted(written)} has more than {limits.number_length} characters"
            fail(DOCUMENT_TOO_LARGE, document, message, remedy="use fewer digits")
        if math.isinf(float(written)):
            refuse_number(written, "is too large for a double")
        return kind(written)

    def refuse_number(written: str, why: str = "is not JSON") -> NoReturn:
        message = f"number {quoted(written)} {why}"
        fail(DOCUMENT_SYNTAX, document, message, remedy="use a finite number")

    decoder = json.JSONDecoder(
        object_pairs_hook=make_object,
        parse_int=lambda written: make_number(written, int),
        parse_float=lambda written: make_number(written, float),
        parse_constant=refuse_number,
    )
    try:
        value = decoder.decode(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        fail(DOCUMENT_SYNTAX, document, f"is not valid JSON at {where}: {error.msg}")
    if repeats or _ESCAPED_SURROGATE.search(text) or _may_have_long_strings(text, limits):
        pairs = json.loads(
            text, object_pairs_hook=_Pairs
        )  # unlike the parsed values, these have all members
        if problems := tuple(islice(_findings_in(pairs, document, limits), MOST_FINDINGS)):
            raise PackageFormatError("\n".join(map(str, problems)), findings=problems)
    return value


def _may_have_long_strings(text: str, limits: DocumentLimits) -> bool:
    """Return True if a string, as written with escapes, is longer than allowed."""
    most = limits.string_length + len('""')
    return len(text) > most and any(
        match.end() - match.start() > most for match in _STRING.finditer(text)
    )


class _Pairs(list[tuple[str, Any]]):
    """Object as written: its members in order, including each of two equal keys."""


def _findings_in(
    value: Any, document: str, limits: DocumentLimits, *tokens: str | int
) -> Iterator[Finding]:
    """Yield what is wrong with keys and strings in ``value``, which is at ``tokens``.

    Findings are in document order. The caller has checked the depth.
    """
    if isinstance(value, _Pairs):
        counts = Counter(key for key, _ in value)
        for key, count in counts.items():
            if count > 1 and not limits.repeated_keys:
                message = f"key {quoted(key)} occurs more than once"
                pointer = json_pointer(*tokens, key)
                yield finding(DUPLICATE_KEY, document, message, pointer=pointer)
            yield from _findings_in(key, document, limits, *tokens)
        for key, inner in value:
            yield from _findings_in(inner, document, limits, *tokens, key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _findings_in(inner, document, limits, *tokens, index)
    elif isinstance(value, str):
        pointer = json_pointer(*tokens)
        if len(value) > (most := limits.string_length):
            message = f"a string has more than {most} characters"
            yield finding(DOCUMENT_TOO_LARGE, document, message, pointer=pointer)
        if _SURROGATE.search(value):
            message = f"{quoted(value)} holds half of a surrogate pair"
            remedy = "use well-formed Unicode"
            yield finding(DOCUMENT_SYNTAX, document, message, pointer=pointer, remedy=remedy)
