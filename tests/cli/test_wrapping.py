"""Lines are broken between words, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ortpkg.cli.wrapping import display_width, unbroken_parts, wrapped


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("short", 20, ["short"]),
        ("one two three", 7, ["one two", "> three"]),
        ("  indented text", 10, ["  indented", "> text"]),
        ("│  ├─ a  tree of words", 13, ["│  ├─ a  tree", "> of words"]),
        ("first line\nsecond", 40, ["first line", "second"]),
        ("a /long/path/that/does/not/fit b", 10, ["a", "> /long/path/that/does/not/fit", "> b"]),
        ("it takes 107.6 kB of memory", 14, ["it takes", "> 107.6 kB of", "> memory"]),
        ("use 'my own model' here", 10, ["use", "> 'my own model'", "> here"]),
        (
            "on CPU (Intel(R) Xeon(R) Processor): fast",
            20,
            ["on CPU", "> (Intel(R) Xeon(R) Processor):", "> fast"],
        ),
        ("the model's own, the user's own", 16, ["the model's own,", "> the user's own"]),
        ("x tensor(float) [batch, 1, 8, 8]", 20, ["x tensor(float)", "> [batch, 1, 8, 8]"]),
        ("模型 模型 模型", 9, ["模型 模型", "> 模型"]),
    ],
)
def test_lines_are_broken_between_words(text: str, width: int, lines: list[str]) -> None:
    assert wrapped(text, width, hang="> ") == lines


@pytest.mark.parametrize(
    ("text", "width"), [("abc", 3), ("模型", 4), ("e\u0301", 1), ("→ µs", 4), ("👍", 2)]
)
def test_width_is_counted_in_columns_of_a_terminal(text: str, width: int) -> None:
    assert display_width(text) == width


WORDS = st.text(st.sampled_from("ab1.'()[] kBms%\\"), max_size=120)


@given(WORDS, st.integers(1, 40))
def test_nothing_is_lost_and_nothing_is_too_long_that_could_be_broken(
    text: str, width: int
) -> None:
    lines = wrapped(text, width)
    assert " ".join(lines).split() == text.split()
    for line in lines:
        if display_width(line) > width:
            assert len(unbroken_parts(line)) == 1 or line == text


def test_a_hostile_text_takes_no_time() -> None:
    for text in ("(" * 50_000, "'" * 50_000, "[" * 50_000, "'\\" * 25_000, "1," * 25_000):
        assert "".join(wrapped(text + " end", 40)).replace(" ", "") == text + "end"
