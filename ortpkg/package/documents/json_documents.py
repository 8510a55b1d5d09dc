"""JSON documents of a package: bytes on disk → values under limits, and values → bytes.

A package comes from a stranger, so a document is measured before it is parsed, and only what every
reader understands in the same way is accepted: RFC 8259 JSON in UTF-8 (a byte order mark is
tolerated) with unique keys, finite numbers and well-formed text. onnxruntime's reader refuses the
same things, except that it lets the last of two equal keys win.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from ortpkg.errors import Finding, PackageFormatError, quoted
from ortpkg.package.documents.json_decoding import (
    NumberError,
    RepeatedKeyError,
    decoder_of_unique_keys,
    new_decoder,
    plain_decoder,
)
from ortpkg.package.findings import finding, json_pointer
from ortpkg.package.frozen import thaw
from ortpkg.package.rules import (
    DOCUMENT_SHAPE,
    DOCUMENT_SYNTAX,
    DOCUMENT_TOO_LARGE,
    DOCUMENT_UNREADABLE,
    DUPLICATE_KEY,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentLimits:
    """How much a document may hold, and what.

    Attributes:
        nbytes: of the file.
        depth: objects and arrays inside each other.
        values: values in the whole document, counted as commas and opening brackets.
        string_length: characters of one string, as written.
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


class CountedJson(NamedTuple):
    """A JSON value, how many values it holds in all (as the limit counts them), and the bytes of
    its document.
    """

    value: Any
    value_count: int
    nbytes: int


DEFAULT_LIMITS = DocumentLimits()
_FOR_READING = os.O_RDONLY | getattr(os, "O_BINARY", 0)

# Strings are one token, so that brackets inside them do not count. A string that never ends is left
# to the parser.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[{]|[\]}]|,', re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NEITHER_BRACKET_NOR_QUOTE = bytes(byte for byte in range(256) if byte not in b'[]{}"\\')
_BRACKETS = frozenset("[]{}")
_ONE_KIND_OF_BRACKET = bytes.maketrans(b"{}", b"[]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_UNESCAPED_QUOTE = re.compile(r'(?<!\\)"')
_MOST_TOKENS_PER_VALUE = 4  # a key, its value, a comma or bracket, and one to spare
#: Up to here, a look at the keys of each object while it is made costs less than a count of all
#: members afterwards.
_FEW_CHARACTERS = 4096
#: Up to here, brackets and commas in strings may count as well.
_FEW_VALUES = 10_000


class _DocumentError(Exception):
    """Ends the reading of a document with one finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def read_document(
    path: Path | str, *, document: str | None = None, limits: DocumentLimits = DEFAULT_LIMITS
) -> dict[str, Any]:
    """Reads the JSON object in ``path``.

    Args:
        path: the file.
        document: its name in findings, normally relative to the package root; the file's name if
            left out.
        limits: what it may hold at most.

    Raises:
        PackageFormatError: the file cannot be read, breaks a limit, or is not a JSON object; says
            what and where.
    """
    name = document if document is not None else Path(path).name
    return require_object(read_json(path, document=name, limits=limits), name, path)


def read_json(path: Path | str, *, document: str, limits: DocumentLimits = DEFAULT_LIMITS) -> Any:
    """The same as :func:`read_document` for a JSON value of any type."""
    return read_counted_json(path, document=document, limits=limits).value


def read_counted_json(
    path: Path | str, *, document: str, limits: DocumentLimits = DEFAULT_LIMITS
) -> CountedJson:
    """The same as :func:`read_json`, with how much the document holds."""
    try:
        data = _read_bytes(path, document, limits.nbytes)
        value = _parse_json(data, document, limits)
        rough_count = data.count(b"[") + data.count(b"{") + data.count(b",")
        count = rough_count if rough_count < _FEW_VALUES else _count_values(value)
        return CountedJson(value, count, len(data))
    except PackageFormatError as error:
        error.path = Path(path)
        raise
    except _DocumentError as error:
        raise PackageFormatError(str(error.finding), findings=(error.finding,), path=path) from None


def parse_document(
    data: bytes, *, document: str, limits: DocumentLimits = DEFAULT_LIMITS
) -> dict[str, Any]:
    """The same as :func:`read_document` for bytes that the caller already has."""
    try:
        return require_object(_parse_json(data, document, limits), document)
    except _DocumentError as error:
        raise PackageFormatError(str(error.finding), findings=(error.finding,)) from None


def dump_document(value: Any) -> bytes:
    """JSON as ortpkg and onnxruntime write it: two spaces, key order and non-ASCII text kept, a
    final newline.

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


def _fail(finding: Finding) -> NoReturn:
    raise _DocumentError(finding)


def _read_bytes(path: Path | str, document: str, most_nbytes: int) -> bytes:
    try:
        # Looked at before it is opened: opening a FIFO would wait for ever.
        status = os.stat(path)  # noqa: PTH116  # half the cost of Path.stat, and this is on the way to every session
        if not stat.S_ISREG(status.st_mode):
            _fail(
                finding(
                    DOCUMENT_UNREADABLE,
                    document,
                    "is not a regular file",
                    remedy="put the JSON file there",
                )
            )
        descriptor = os.open(path, _FOR_READING)  # as above
        try:
            # One byte more than it has shows that it grew; read() sets aside all that it is asked
            # for.
            data = os.read(descriptor, min(status.st_size, most_nbytes) + 1)
            while len(data) != status.st_size and len(data) <= most_nbytes:
                if not (more := os.read(descriptor, most_nbytes + 1 - len(data))):
                    break
                data += more
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        _fail(finding(DOCUMENT_UNREADABLE, document, "does not exist", remedy="add the file"))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        _fail(finding(DOCUMENT_UNREADABLE, document, f"cannot be read: {reason}"))
    if len(data) > most_nbytes:
        _fail(finding(DOCUMENT_TOO_LARGE, document, f"is larger than {most_nbytes} bytes"))
    return data


def require_object(value: Any, document: str, path: Path | str | None = None) -> dict[str, Any]:
    """``value`` where it is a JSON object. PackageFormatError elsewhere."""
    if not isinstance(value, dict):
        found = finding(
            DOCUMENT_SHAPE, document, "is not a JSON object", remedy="put everything into {...}"
        )
        raise PackageFormatError(str(found), findings=(found,), path=path)
    return value


def _parse_json(data: bytes, document: str, limits: DocumentLimits) -> Any:
    if limits.text_after_nul:
        data = data.partition(b"\0")[0]
    text = _decode(data, document)
    if not _is_small(data, limits):
        if limits.drops_what_is_deeper:
            text = _without_depth(text, document, limits)
        _check_size(text, document, limits)
    return _parse(text, document, limits)


def _decode(data: bytes, document: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _fail(
            finding(
                DOCUMENT_SYNTAX, document, f"is not UTF-8 text: byte {error.start} is not valid"
            )
        )
    if not text.strip(" \t\r\n"):
        _fail(finding(DOCUMENT_SYNTAX, document, "is empty", remedy="a JSON object belongs there"))
    return text


def _is_small(data: bytes, limits: DocumentLimits) -> bool:
    """Whether the document surely breaks neither the limit of depth nor that of values; where not,
    look closer.

    Looks at brackets and quotes only. Strings without these vanish as pairs of quotes; where a
    string holds a bracket, quotes are left over. Then each round takes the innermost brackets away,
    so that there are as many as the document is deep. All of it runs at the speed of memory, where
    a look at each token takes longer than parsing.
    """
    openers = data.count(b"[") + data.count(b"{")
    if openers + data.count(b",") > limits.values:
        return False
    if openers <= limits.depth:
        return True
    brackets = data.translate(_ONE_KIND_OF_BRACKET, delete=_NEITHER_BRACKET_NOR_QUOTE).replace(
        b'""', b""
    )
    if b'"' in brackets or b"\\" in brackets:
        return False
    for _ in range(limits.depth):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return True
    return False


def _check_size(text: str, document: str, limits: DocumentLimits) -> None:
    """Bounds depth and number of values before the parser, which recurses and allocates, sees the
    text.
    """
    depth = deepest = values = 0
    for tokens, match in enumerate(_TOKEN.finditer(text)):
        first = text[match.start()]
        if first in "[{":
            depth += 1
            deepest = max(deepest, depth)
            values += 1
        elif first in "]}":
            depth -= 1
        elif first == ",":
            values += 1
        if deepest > limits.depth:
            _fail(
                finding(
                    DOCUMENT_TOO_LARGE, document, f"is nested deeper than {limits.depth} levels"
                )
            )
        if values > limits.values or tokens > limits.values * _MOST_TOKENS_PER_VALUE:
            _fail(finding(DOCUMENT_TOO_LARGE, document, f"holds more than {limits.values} values"))


def _without_depth(text: str, document: str, limits: DocumentLimits) -> str:
    """``text`` with 0 for each object and array that is nested deeper than ``limits.depth``, from
    the inside out.
    """
    pieces: list[str] = []
    openings: list[int] = []
    end = 0
    for match in _TOKEN.finditer(text):
        bracket = match.group()
        if bracket not in _BRACKETS:
            continue
        pieces += (text[end : match.start()], bracket)
        end = match.end()
        if bracket in "[{":
            openings.append(len(pieces) - 1)
        elif openings:
            start = openings.pop()
            if len(openings) >= limits.depth:
                flat = "".join(pieces[start:])
                value = _load(flat, document, plain_decoder(limits.number_length))
                if _ESCAPED_SURROGATE.search(flat):
                    _check_strings(value, document, limits.string_length)
                    _check_replaced_strings(flat, document)
                pieces[start:] = ["0"]
    return "".join(pieces) + text[end:]


_REPEATED = object()


class _Objects:
    """Makes dictionaries from pairs and remembers those in which a key came twice."""

    def __init__(self) -> None:
        self.repeated: list[tuple[dict[str, Any], list[str]]] = []

    def make(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            self.repeated.append((made, [key for key, count in counts.items() if count > 1]))
        return made


def _parse(text: str, document: str, limits: DocumentLimits) -> Any:
    value = _load_unique(text, document, limits)
    if value is _REPEATED:
        objects = _Objects()
        value = _load(text, document, new_decoder(limits.number_length, objects.make))
        if objects.repeated:
            raise _repeated_keys_error(value, objects.repeated, document)
    if _ESCAPED_SURROGATE.search(text) or _may_have_long_strings(text, limits.string_length):
        _check_strings(value, document, limits.string_length)
        if limits.repeated_keys:
            _check_replaced_strings(text, document)
    return value


def _load_unique(text: str, document: str, limits: DocumentLimits) -> Any:
    """The value of ``text``, or _REPEATED where an object may have a key twice and the limits
    forbid that.
    """
    if limits.repeated_keys:
        return _load(text, document, plain_decoder(limits.number_length))
    if len(text) <= _FEW_CHARACTERS:
        try:
            return _load(text, document, decoder_of_unique_keys(limits.number_length))
        except RepeatedKeyError:
            return _REPEATED
    value = _load(text, document, plain_decoder(limits.number_length))
    return _REPEATED if _may_repeat_keys(text, value) else value


def _load(text: str, document: str, decoder: json.JSONDecoder) -> Any:
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        _fail(finding(DOCUMENT_SYNTAX, document, f"is not valid JSON at {where}: {error.msg}"))
    except NumberError as error:
        _fail(finding(error.rule, document, error.message, remedy=error.remedy))


def _may_repeat_keys(text: str, value: Any) -> bool:
    """Whether an object in ``text`` may have a key twice, so that ``value`` lacks a member; where
    so, look closer.

    Each member is written with a colon after a quote or white space. There are at least as many of
    these as members in the text, and at least as many members in the text as in the value: where
    both ends are equal, nothing was dropped.
    """
    members = _count_members(value)
    return members != text.count(":") and members != sum(
        text.count(before + ":") for before in '" \t\n\r'
    )


def _count_members(value: Any) -> int:
    """How many members all objects in ``value`` have together.

    Level by level: a visit of each takes several times.
    """
    count = 0
    level = [value]
    while level:
        objects = [each for each in level if type(each) is dict]
        arrays = [each for each in level if type(each) is list]
        count += sum(map(len, objects))
        level = list(
            chain(chain.from_iterable(map(dict.values, objects)), chain.from_iterable(arrays))
        )
    return count


def _count_values(value: Any) -> int:
    """How many values are in ``value``, counted as commas and opening brackets.

    Level by level, as above.
    """
    count = 0
    level = [value]
    while level:
        objects = [each for each in level if type(each) is dict]
        arrays = [each for each in level if type(each) is list]
        count += sum(max(len(each), 1) for each in chain(objects, arrays))
        level = list(
            chain(chain.from_iterable(map(dict.values, objects)), chain.from_iterable(arrays))
        )
    return count


def _may_have_long_strings(text: str, most_characters: int) -> bool:
    """Whether some string may be longer than ``most_characters``; where so, look closer.

    A string that long covers a whole window of half its length, which then has no quote but escaped
    ones.
    """
    window = max(1, most_characters // 2)
    return len(text) > most_characters and not all(
        _UNESCAPED_QUOTE.search(text, start, start + window)
        for start in range(0, len(text) - window + 1, window)
    )


def _repeated_keys_error(
    value: Any, repeated: list[tuple[dict[str, Any], list[str]]], document: str
) -> PackageFormatError:
    """Finds where the objects with repeated keys stand: the parser does not say while it makes
    them.
    """
    keys_by_identity = {id(made): keys for made, keys in repeated}
    findings = [
        finding(
            DUPLICATE_KEY,
            document,
            f"key {quoted(key)} occurs more than once",
            pointer=json_pointer(*tokens, key),
        )
        for tokens, item in _walk(value)
        for key in (keys_by_identity.get(id(item), ()) if isinstance(item, dict) else ())
    ]
    return PackageFormatError("\n".join(map(str, findings)), findings=findings)


def _check_strings(value: Any, document: str, most_characters: int) -> None:
    for tokens, item in _walk(value):
        texts = item if isinstance(item, dict) else (item,) if isinstance(item, str) else ()
        for text in texts:
            pointer = json_pointer(*tokens)
            if len(text) > most_characters:
                message = f"a string has more than {most_characters} characters"
                _fail(finding(DOCUMENT_TOO_LARGE, document, message, pointer=pointer))
            if _SURROGATE.search(text):
                message = f"{quoted(text)} holds half of a surrogate pair"
                _fail(
                    finding(
                        DOCUMENT_SYNTAX,
                        document,
                        message,
                        pointer=pointer,
                        remedy="use well-formed Unicode",
                    )
                )


def _check_replaced_strings(text: str, document: str) -> None:
    """What a later equal key replaces is not in the value, but in the document all the same."""
    for match in _STRING.finditer(text):
        written = match.group()
        if _ESCAPED_SURROGATE.search(written) and _SURROGATE.search(shown := json.loads(written)):
            message = f"{quoted(shown)} holds half of a surrogate pair"
            _fail(finding(DOCUMENT_SYNTAX, document, message, remedy="use well-formed Unicode"))


def _walk(
    value: Any, tokens: tuple[str | int, ...] = ()
) -> list[tuple[tuple[str | int, ...], Any]]:
    """Every value below and including ``value`` with its path, in document order; depth is bounded
    before.
    """
    found: list[tuple[tuple[str | int, ...], Any]] = []
    pending: list[tuple[tuple[str | int, ...], Any]] = [(tokens, value)]
    while pending:
        tokens, item = pending.pop()
        found.append((tokens, item))
        if isinstance(item, dict):
            pending.extend(((*tokens, key), inner) for key, inner in reversed(item.items()))
        elif isinstance(item, list):
            pending.extend(
                ((*tokens, index), item[index]) for index in range(len(item) - 1, -1, -1)
            )
    return found
