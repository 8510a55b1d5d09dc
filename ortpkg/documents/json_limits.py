"""JSON text → values under limits, in one pass: no document exhausts anything or means two things.

Accepted is RFC 8259 JSON in UTF-8 (a byte order mark is tolerated) with unique keys, finite numbers
and well-formed text. onnxruntime's reader refuses the same things, except that it lets the last of
two equal keys win.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple, NoReturn

from ortpkg.documents.document_rules import DOCUMENT_SYNTAX, DOCUMENT_TOO_LARGE, DUPLICATE_KEY, Rule
from ortpkg.documents.findings import finding, json_pointer
from ortpkg.errors import PackageFormatError, quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentLimits:
    """How much a document may hold, and what.

    Attributes:
        nbytes: of the file.
        depth: objects and arrays inside each other.
        values: values in the whole document, counted as commas and opening brackets.
        string_length: characters of one string.
        number_length: characters of one number, as written.
        repeated_keys: an object may have a key twice; the last one counts, in the place of the
            first.
        text_after_nul: a NUL byte ends the document, whatever follows.
        drops_what_is_deeper: what is nested deeper than ``depth`` is checked, and the number 0
            stands in its place.
    """

    nbytes: int = 32 * 1024 * 1024
    depth: int = 64
    values: int = 1_000_000
    string_length: int = 1024 * 1024
    number_length: int = 128
    repeated_keys: bool = False
    text_after_nul: bool = False
    drops_what_is_deeper: bool = False


DEFAULT_LIMITS = DocumentLimits()


class CountedJson(NamedTuple):
    """A JSON value, the number of values in it (as the limit counts), its document's bytes."""

    value: Any
    value_count: int
    nbytes: int


_MOST_DIGITS_OF_A_DOUBLE = 308
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_STRING_OR_BRACKET = re.compile(rf"{_STRING.pattern}|[\[\]{{}}]", re.DOTALL)
_ONE_KIND_OF_BRACKET = bytes.maketrans(b"{}", b"[]")
_NO_STRUCTURE = bytes(set(range(256)) - set(b"[]{},"))
_STEPS = {ord("["): 1, ord("]"): -1, ord(","): 0}
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_counted_json(data: bytes, document: str, limits: DocumentLimits) -> CountedJson:
    """The JSON value that ``data`` is.

    Raises PackageFormatError where it is none, or breaks a limit; ``document`` names it in
    findings.
    """
    written = data.partition(b"\0")[0] if limits.text_after_nul else data
    text = _decode(written, document)
    if limits.drops_what_is_deeper:
        text = _without_depth(text, document, limits)
        written = text.encode()
    count = _check_size(written, document, limits)
    return CountedJson(_Parser(document, limits).parse(text), count, len(data))


def fail(
    rule: Rule, document: str, message: str, *, pointer: str = "", remedy: str = ""
) -> NoReturn:
    """Ends the reading of a document with one finding."""
    found = finding(rule, document, message, pointer=pointer, remedy=remedy)
    raise PackageFormatError(str(found), findings=(found,))


def _decode(data: bytes, document: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fail(DOCUMENT_SYNTAX, document, f"is not UTF-8 text: byte {error.start} is not valid")
    if not text.strip(" \t\r\n"):
        fail(DOCUMENT_SYNTAX, document, "is empty", remedy="a JSON object belongs there")
    return text


def _check_size(data: bytes, document: str, limits: DocumentLimits) -> int:
    """How many values ``data`` holds.

    Bounds them, and their depth, before the parser, which recurses and allocates, sees them.

    What is measured is what stands outside of strings, up to the first error of syntax, where the
    parser stops.
    """
    unescaped = _ESCAPE.sub(b"", data) if b"\\" in data else data  # each quote is now of a string
    structure = b""
    if (quotes := unescaped.count(b'"')) <= 4 * limits.values + 2:
        outside = b"".join(unescaped.split(b'"')[::2])
        structure = outside.translate(_ONE_KIND_OF_BRACKET, _NO_STRUCTURE)
    count = structure.count(b"[") + structure.count(b",")
    # With each value come at most a key and a string, and one bracket that closes it.
    if max(count, (quotes - 2) / 4, (len(structure) - 1) / 2) > limits.values:
        fail(DOCUMENT_TOO_LARGE, document, f"holds more than {limits.values} values")
    if max(accumulate(map(_STEPS.__getitem__, structure)), default=0) > limits.depth:
        fail(DOCUMENT_TOO_LARGE, document, f"is nested deeper than {limits.depth} levels")
    return count


def _without_depth(text: str, document: str, limits: DocumentLimits) -> str:
    """``text`` with 0 in place of each object and array nested deeper than ``limits.depth``."""
    pieces: list[str] = []
    openings: list[int] = []
    end = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        bracket = match.group()
        if bracket[0] == '"':
            continue
        pieces += (text[end : match.start()], bracket)
        end = match.end()
        if bracket in "[{":
            openings.append(len(pieces) - 1)
        elif openings:
            start = openings.pop()
            if len(openings) >= limits.depth:
                _Parser(document, limits).parse("".join(pieces[start:]))
                pieces[start:] = ["0"]
    return "".join(pieces) + text[end:]


class _Parser:
    """Parses one text, and looks at each number and each object while it is made."""

    def __init__(self, document: str, limits: DocumentLimits) -> None:
        self._document = document
        self._limits = limits
        self._repeated: list[tuple[dict[str, Any], list[str]]] = []
        self._replaced: list[Any] = []

    def parse(self, text: str) -> Any:
        decoder = json.JSONDecoder(
            object_pairs_hook=self._make_object,
            parse_int=self._make_int,
            parse_float=self._make_float,
            parse_constant=self._refuse_constant,
        )
        try:
            value = decoder.decode(text)
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            self._fail(DOCUMENT_SYNTAX, f"is not valid JSON at {where}: {error.msg}")
        if self._repeated:
            raise self._repeated_keys_error(value)
        if _ESCAPED_SURROGATE.search(text) or self._may_have_long_strings(text):
            self._check_strings(_walk(value))
            for each in self._replaced:  # which has no place in the value
                self._check_strings(((), item) for _, item in _walk(each))
        return value

    def _make_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            if self._limits.repeated_keys:
                self._replaced += [value for key, value in pairs if made[key] is not value]
            else:
                counts = Counter(key for key, _ in pairs)
                self._repeated.append((made, [key for key, count in counts.items() if count > 1]))
        return made

    def _make_int(self, written: str) -> int:
        if len(written) > _MOST_DIGITS_OF_A_DOUBLE:
            self._make_float(written)
        self._check_length(written)
        return int(written)

    def _make_float(self, written: str) -> float:
        self._check_length(written)
        made = float(written)
        if math.isinf(made):
            self._refuse_number(written, "is too large for a double")
        return made

    def _refuse_constant(self, written: str) -> NoReturn:
        self._refuse_number(written, "is not JSON")

    def _refuse_number(self, written: str, why: str) -> NoReturn:
        message = f"number {quoted(written)} {why}"
        self._fail(DOCUMENT_SYNTAX, message, remedy="use a finite number")

    def _check_length(self, written: str) -> None:
        most = self._limits.number_length
        if len(written) > most:
            message = f"number {quoted(written)} has more than {most} characters"
            self._fail(DOCUMENT_TOO_LARGE, message, remedy="use fewer digits")

    def _may_have_long_strings(self, text: str) -> bool:
        """Whether some string is longer than allowed as it is written, which may have escapes."""
        most = self._limits.string_length + len('""')
        return len(text) > most and any(
            each.end() - each.start() > most for each in _STRING.finditer(text)
        )

    def _check_strings(self, items: Iterable[tuple[tuple[str | int, ...], Any]]) -> None:
        most = self._limits.string_length
        for tokens, item in items:
            texts = item if isinstance(item, dict) else (item,) if isinstance(item, str) else ()
            for text in texts:
                pointer = json_pointer(*tokens)
                if len(text) > most:
                    message = f"a string has more than {most} characters"
                    self._fail(DOCUMENT_TOO_LARGE, message, pointer=pointer)
                if _SURROGATE.search(text):
                    message = f"{quoted(text)} holds half of a surrogate pair"
                    remedy = "use well-formed Unicode"
                    self._fail(DOCUMENT_SYNTAX, message, pointer=pointer, remedy=remedy)

    def _repeated_keys_error(self, value: Any) -> PackageFormatError:
        """The error that says where keys are repeated; the parser only says that some are."""
        keys_by_identity = {id(made): keys for made, keys in self._repeated}
        findings = [
            finding(
                DUPLICATE_KEY,
                self._document,
                f"key {quoted(key)} occurs more than once",
                pointer=json_pointer(*tokens, key),
            )
            for tokens, item in _walk(value)
            for key in (keys_by_identity.get(id(item), ()) if isinstance(item, dict) else ())
        ]
        return PackageFormatError("\n".join(map(str, findings)), findings=findings)

    def _fail(self, rule: Rule, message: str, *, pointer: str = "", remedy: str = "") -> NoReturn:
        fail(rule, self._document, message, pointer=pointer, remedy=remedy)


def _walk(value: Any, *tokens: str | int) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every value below and including ``value`` with its path, in document order.

    The caller has checked that it does not nest too deep.
    """
    yield tokens, value
    inner: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for token, each in inner:
        yield from _walk(each, *tokens, token)
