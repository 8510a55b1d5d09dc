"""Where pointers point to in a document's text."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from ortpkg.foundations.documents.finding_collector import json_pointer
from ortpkg.foundations.documents.json_positions import Position, find_positions

TEXT = """{
  "a": {"b/c": [1, {"d": "}{"}]},
  "é~": null
}
"""


def test_points_at_keys_and_elements() -> None:
    found = find_positions(TEXT, ["", "/a", "/a/b~1c", "/a/b~1c/0", "/a/b~1c/1/d", "/é~0"])
    assert found == {
        "": Position(1, 1),
        "/a": Position(2, 3),
        "/a/b~1c": Position(2, 9),
        "/a/b~1c/0": Position(2, 17),
        "/a/b~1c/1/d": Position(2, 21),
        "/é~0": Position(3, 3),
    }


def test_what_is_not_there_gets_the_place_around_it() -> None:
    assert find_positions(TEXT, ["/a/x/y", "/nothing"]) == {
        "/a/x/y": Position(2, 3),
        "/nothing": Position(1, 1),
    }


def test_of_a_key_that_comes_twice_the_last_one_counts() -> None:
    assert find_positions('{"a": 1,\n "a": 2}', ["/a"]) == {"/a": Position(2, 2)}


def test_reads_text_that_is_no_json_as_far_as_it_goes() -> None:
    assert find_positions('{"a": 1, "b"', ["/a", "/b"]) == {
        "/a": Position(1, 2),
        "/b": Position(1, 10),
    }
    assert find_positions("", ["/a"]) == {}


_VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


def _pointers(value: object, pointer: str = "") -> list[tuple[str, object]]:
    members = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    below = [
        each for key, inner in members for each in _pointers(inner, pointer + json_pointer(key))
    ]
    return [(pointer, value), *below]


@given(value=_VALUES, indent=st.sampled_from([None, 1]))
def test_the_value_at_the_position_is_the_one_pointed_to(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    lines = text.splitlines(keepends=True)
    pointed = _pointers(value)
    found = find_positions(text, [pointer for pointer, _ in pointed])
    for pointer, expected in pointed:
        position = found[pointer]
        rest = "".join(lines[position.line - 1 :])[position.column - 1 :]
        decoded, end = json.JSONDecoder().raw_decode(rest)
        is_member = pointer and rest[end:].startswith(": ")
        actual = json.JSONDecoder().raw_decode(rest[end + 2 :])[0] if is_member else decoded
        assert actual == expected
