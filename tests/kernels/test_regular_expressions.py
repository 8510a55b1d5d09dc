"""Regular expressions in linear time, held against Python's where both understand the pattern."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.graph.load_control import LoadControl, load_limits
from ortpkg.runtime.kernels import regular_expressions
from ortpkg.runtime.kernels.regular_expressions import RegularExpression


def matches(pattern: str, text: str) -> bool:
    return RegularExpression(pattern).matches_fully(text, lambda: None)


_ATOMS = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", "(?:a|b)", "(ab)", "", "^", "$", r"\b", "(?i:A)"]
)
_FACTORS = st.tuples(
    _ATOMS, st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"])
).map(lambda pair: f"(?:{pair[0]}){pair[1]}")
_PATTERNS = st.lists(_FACTORS, max_size=4).map("".join)


@settings(max_examples=300, deadline=None)
@given(
    pattern=st.lists(_PATTERNS, min_size=1, max_size=2).map("|".join),
    text=st.text("abA1 \n", max_size=6),
)
def test_agrees_with_python(pattern: str, text: str) -> None:
    # Python's $ also holds before a last newline; RE2's does not.
    assert matches(pattern, text) == (
        re.fullmatch(pattern.replace("$", r"\Z"), text, re.ASCII) is not None
    )


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"www.[\w.-]+\bcom\b", "www.example.com"),
        (r"[[:alpha:]_]+", "snake_case"),
        (r"\x41\x{1F600}", "A\U0001f600"),
        (r"(?i)straße", "STRAßE"),
        (r"(?s)a.b", "a\nb"),
        (r"(?P<year>\d{4})-(?P<month>\d\d)", "2026-11"),
        (r"[]a]+", "]a"),
        (r"[&|~-]+", "&|~-"),
        (r"(a|b(c|d))?", "bd"),
    ],
)
def test_syntax_of_re2(pattern: str, text: str) -> None:
    assert matches(pattern, text)
    assert not matches(pattern, text + "\0")


@pytest.mark.parametrize("pattern", ["(a+)+", "(a|a)*", "(a|aa)+", "(.*)*", "a*a*a*a*a*a*a*a*"])
def test_patterns_that_explode_elsewhere_take_linear_time(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regular_expressions, "_CHECK_EVERY", 100)
    expression = RegularExpression(pattern + "x")
    checks = [checks_of(expression, "a" * count + "!") for count in (500, 5000)]
    assert 9 * checks[0] < checks[1] < 11 * checks[0]


def test_a_text_is_checked_by_what_it_costs() -> None:
    few, many = RegularExpression("a*"), RegularExpression("(?:a?){1000}(?:a?){1000}")
    assert checks_of(many, "a" * 1000) > 100 * checks_of(few, "a" * 1000)


def checks_of(expression: RegularExpression, text: str) -> int:
    """How often a match asks whether it is to end."""
    checks: list[None] = []
    expression.matches_fully(text, lambda: checks.append(None))
    return len(checks)


def test_compiling_a_pattern_asks_whether_it_is_to_end() -> None:
    control = LoadControl(memory_limit_nbytes=None, timeout_s=0.0)
    with load_limits(control), pytest.raises(LimitExceededError, match="time limit"):
        RegularExpression("abc")


def test_long_match_can_be_ended() -> None:
    def end() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        RegularExpression("a*").matches_fully("a" * 10, end)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(a", r"has a '\(' without its '\)'"),
        ("a)", r"has a '\)' without its '\('"),
        ("[a", r"has a '\[' without its '\]'"),
        ("[z-a]", "has a malformed class"),
        ("*a", "repeats nothing"),
        ("a**", "repeats a repetition"),
        ("a{5000}", "at most 1000 times"),
        ("a{3,2}", "least first"),
        ("(?=a)", "look-around"),
        (r"(a)\1", "which is not supported"),
        (r"\pL", "which is not supported"),
        (r"[\pL]", "uses a Unicode class"),
        (r"\x{110000}", "beyond Unicode"),
        ("(" * 200 + ")" * 200, "nests more than 100 groups"),
        ("(a{1000}){1000}", "more than 10000 states"),
        ("((){1000}){1000}", "more than 10000 states"),
        ("a" * 20_000, "more than 10000 states"),
        ("[" + "a" * 200_000 + "]", "has 200002 characters, more than 100000"),
    ],
)
def test_refuses_what_is_malformed_unsupported_or_too_large(pattern: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        RegularExpression(pattern)
