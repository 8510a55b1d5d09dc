"""JSON documents: what is read, what is refused and how it is said."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.foundations.documents.document_limits import DocumentLimits
from ortpkg.foundations.documents.frozen import freeze
from ortpkg.foundations.documents.json_documents import (
    dump_document,
    parse_document,
    read_document,
    read_json,
)
from ortpkg.foundations.documents.json_limits import parse_counted_json
from ortpkg.foundations.errors import Finding, PackageFormatError

SMALL = DocumentLimits(nbytes=1000, depth=5, values=20, string_length=30, number_length=10)


def refusal(text: str | bytes, limits: DocumentLimits = SMALL) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(PackageFormatError) as caught:
        parse_document(data, document="d.json", limits=limits)
    assert caught.value.findings
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "d.json: is empty"),
        (" \n", "d.json: is empty"),
        ('{"a": 1,}', "d.json: is not valid JSON at line 1, column "),
        ('{"a":\n 1} x', "d.json: is not valid JSON at line 2, column 5: Extra data"),
        ('{"a": 1} // why', "Extra data"),
        ("{'a': 1}", "is not valid JSON at line 1, column 2"),
        ('{"a": "\t"}', "Invalid control character"),
        ("[1]", "d.json: is not a JSON object (put everything into {...}) [ORT005]"),
        ("null", "is not a JSON object"),
        ('{"a": NaN}', "d.json: number 'NaN' is not JSON (use a finite number) [ORT003]"),
        ('{"a": -Infinity}', "number '-Infinity' is not JSON"),
        ('{"a": 1e999}', "number '1e999' is too large for a double"),
        (
            '{"a": 12345678901}',
            "number '12345678901' has more than 10 characters (use fewer digits) [ORT002]",
        ),
        (r'{"a": ["\ud800"]}', r"d.json#/a/0: '\ud800' holds half of a surrogate pair"),
        (r'{"\udfff": 1}', "holds half of a surrogate pair"),
        (b'{"a": "\xff"}', "d.json: is not UTF-8 text: byte 7 is not valid"),
        (b'{"a": "\xed\xa0\x80"}', "is not UTF-8 text"),
        ('{"a": 1}'.encode("utf-16"), "is not UTF-8 text"),
        ('{"a": {"b": 1, "b": 2}}', "d.json#/a/b: key 'b' occurs more than once"),
        ('{"a": "' + 31 * "x" + '"}', "d.json#/a: a string has more than 30 characters"),
        ('{"a": [[[[[1]]]]]}', "is nested deeper than 5 levels"),
        ('{"a": [' + "1," * 20 + "1]}", "holds more than 20 values"),
        ('{"a": ["]"' + "[]" * 6 + '""' * 100 + "]}", "holds more than 20 values"),
        ('{"a": 1' + "}" * 50, "holds more than 20 values"),
        ('{"a": ["]", [[[[1]]]]]}', "is nested deeper than 5 levels"),
    ],
)
def test_refuses_what_readers_disagree_about(text: str | bytes, message: str) -> None:
    assert message in refusal(text)


def test_reports_every_repeated_key_at_once() -> None:
    with pytest.raises(PackageFormatError) as caught:
        parse_document(b'{"a": 1, "x/y": {"b": 1, "b": 2, "b": 3}, "a": 2}', document="d.json")
    assert [finding.pointer for finding in caught.value.findings] == ["/a", "/x~1y/b"]


def test_refuses_a_hundred_thousand_levels_without_recursion() -> None:
    assert "is nested deeper than 64 levels" in refusal("[" * 100_000, DocumentLimits())
    assert "is nested deeper than 64 levels" in refusal('{"a":' * 100_000, DocumentLimits())


def test_brackets_inside_strings_do_not_count_as_depth() -> None:
    text = json.dumps({"a": '[[[[[["[[[{{{\\'})
    assert parse_document(text.encode(), document="d", limits=SMALL) == json.loads(text)


def test_accepts_a_byte_order_mark_and_keeps_key_order() -> None:
    value = parse_document(
        b'\xef\xbb\xbf{"b": 1, "a": [1.5, "\xc3\xa9", "\\ud83d\\ude00"]}', document="d"
    )
    assert list(value.items()) == [("b", 1), ("a", [1.5, "é", "😀"])]


def test_reads_a_file_at_the_limit_and_refuses_one_byte_more(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_bytes(b'{"a": 1}')
    assert read_document(path, limits=DocumentLimits(nbytes=8)) == {"a": 1}
    with pytest.raises(PackageFormatError, match=r"d\.json: is larger than 7 bytes") as caught:
        read_document(path, limits=DocumentLimits(nbytes=7))
    assert caught.value.path == path


def test_says_when_a_file_is_missing_or_a_directory(tmp_path: Path) -> None:
    with pytest.raises(PackageFormatError, match=r"models/m/metadata\.json: does not exist"):
        read_document(tmp_path / "none.json", document="models/m/metadata.json")
    with pytest.raises(PackageFormatError, match="is not a regular file"):
        read_document(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_refuses_a_fifo_instead_of_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "d.json")
    with pytest.raises(PackageFormatError, match="is not a regular file"):
        read_document(tmp_path / "d.json")


def test_dump_is_indented_unescaped_and_ends_with_a_newline() -> None:
    dumped = dump_document(freeze({"b": ["é"], "a": None}))
    assert dumped.decode() == '{\n  "b": [\n    "é"\n  ],\n  "a": null\n}\n'


def test_dump_refuses_what_is_not_json() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        dump_document({"a": float("nan")})


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=15,
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), JSON_VALUES, max_size=5))
@settings(max_examples=60, deadline=None)
def test_a_value_survives_the_round_trip(value: dict[str, Any]) -> None:
    assert parse_document(dump_document(value), document="d") == value


JSON_FRAGMENTS = st.lists(
    st.sampled_from(
        ["{", "}", "[", "]", ",", ":", '"', '"a"', '"b":', "\\", "\\u", "\\ud800", "1", "-", "1e999", "NaN", " ", "é",
         "true", "null", "0" * 12, '"' + "x" * 40 + '"', "\x00", "\ufeff"]
    ),
    max_size=40,
).map(lambda parts: "".join(parts).encode())  # fmt: skip


@given(JSON_FRAGMENTS | st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused_with_a_typed_error(data: bytes) -> None:
    value = value_or_findings(data)
    if isinstance(value, dict):
        assert parse_document(dump_document(value), document="d") == value
    else:
        assert value


def value_or_findings(data: bytes) -> dict[str, Any] | tuple[Finding, ...]:
    try:
        return parse_document(data, document="d", limits=SMALL)
    except PackageFormatError as error:
        return error.findings


@given(
    st.recursive(
        st.none() | st.text(st.sampled_from('[]{}"\\a,')),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(st.sampled_from('[{"a')), inner, max_size=3)
        ),
        max_leaves=12,
    )
)
@settings(deadline=None)
def test_depth_is_measured_whatever_strings_hold(value: Any) -> None:
    document = json.dumps({"": value}).encode()
    deepest = depth_of({"": value})
    parse_document(document, document="d.json", limits=DocumentLimits(depth=deepest))
    with pytest.raises(PackageFormatError, match=f"is nested deeper than {deepest - 1} levels"):
        parse_document(document, document="d.json", limits=DocumentLimits(depth=deepest - 1))


def depth_of(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(depth_of, value.values() if isinstance(value, dict) else value), default=0)


TRICKY_TEXT = st.text(alphabet='a:" \\\n', max_size=6)
MEMBERS = st.lists(
    st.tuples(TRICKY_TEXT, st.sampled_from(["", " ", "\n\t"]), TRICKY_TEXT), max_size=4
)


@given(outer=MEMBERS, inner=MEMBERS)
@settings(max_examples=200, deadline=None)
def test_notices_a_repeated_key_whatever_colons_stand_around(
    outer: list[tuple[str, str, str]], inner: list[tuple[str, str, str]]
) -> None:
    """Colons in strings, or apart from their key, do not make up for one another."""
    nested = f'"nested": [{object_text(inner)}]'
    text = object_text(outer).replace("{", "{" + nested + ("," if outer else ""), 1)
    repeats = any(len({key for key, _, _ in members}) < len(members) for members in (outer, inner))
    if repeats:
        assert "occurs more than once" in refusal(text, DocumentLimits())
    else:
        assert parse_document(text.encode(), document="m.json") == json.loads(text)


def object_text(members: list[tuple[str, str, str]]) -> str:
    return (
        "{"
        + ",".join(f"{json.dumps(key)}{space}:{json.dumps(value)}" for key, space, value in members)
        + "}"
    )


@given(texts=st.lists(st.text(alphabet='ab"\\', max_size=40), max_size=8))
@settings(max_examples=200, deadline=None)
def test_notices_a_long_string_wherever_it_begins_and_whatever_it_holds(texts: list[str]) -> None:
    limits = DocumentLimits(string_length=12)
    text = json.dumps({"list": texts})
    if any(len(each) > limits.string_length for each in texts):
        assert "a string has more than 12 characters" in refusal(text, limits)
    else:
        assert parse_document(text.encode(), document="m.json", limits=limits) == {"list": texts}


@pytest.mark.parametrize("padding", [0, 10_000])
def test_finds_a_repeated_key_in_documents_of_every_size(padding: int) -> None:
    text = json.dumps({"padding": " " * padding, "deep": [{"b": '": 1'}]}).replace(
        '"b"', '"a": 1, "a"'
    )
    with pytest.raises(PackageFormatError, match=r"key 'a' occurs more than once"):
        parse_document(text.encode(), document="d.json")
    assert parse_document(text.replace('"a": 1, ', "").encode(), document="d.json")["deep"] == [
        {"a": '": 1'}
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1234", 1234),
        (' {"a": [[1], 2]}', {"a": [0, 2]}),
        ('[[], [[]], {"b": {}}, 3] ', [0, 0, 0, 3]),
        ('{"a": "[[[", "b": [["]]]"]]}', {"a": "[[[", "b": [0]}),
    ],
)
def test_what_is_nested_deeper_is_0_where_that_is_asked_for(
    text: str, value: Any, tmp_path: Path
) -> None:
    path = tmp_path / "d.json"
    path.write_text(text)
    depth = 2 if text.strip()[0] == "{" else 1
    limits = DocumentLimits(depth=depth, values=4 if depth == 2 else 8, drops_what_is_deeper=True)

    assert read_json(path, document="d.json", limits=limits) == value


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1", 0),
        ("[]", 1),
        ('["a"]', 1),
        ('["a, [b], {c}"]', 1),
        ("[[1], [2], [[]]]", 6 + 1),
        ('{"a": {}, "b": [1, 2]}', 1 + 1 + 1 + 1 + 1),
    ],
)
def test_what_a_document_holds_is_counted_as_commas_and_brackets_outside_of_texts(
    text: str, count: int
) -> None:
    assert parse_counted_json(text.encode(), "d.json", DocumentLimits()).value_count == count
