"""StringConcat, StringNormalizer, StringSplit, RegexFullMatch."""

from __future__ import annotations

import numpy as np
import pytest

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.foundations.isolation.polling import polled
from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op


def texts(*values: str) -> Tensor:
    return np.array(values, dtype=object)


def test_scalars_are_texts_too() -> None:
    x = np.array("a b", dtype=object)
    assert run_op("StringConcat", x, texts("c")).tolist() == ["a bc"]
    parts, count = run_op("StringSplit", x, outputs=2)
    assert (parts.tolist(), count.item()) == (["a", "b"], 2)
    assert run_op("RegexFullMatch", x, pattern="a.b").item() is True


def test_concatenation_that_would_explode_is_refused() -> None:
    x = np.array([["x" * 1000]] * 1000, dtype=object)
    with pytest.raises(LimitExceededError):
        run_op("StringConcat", x, x.T, limit_nbytes=100_000_000)


def test_split_that_would_explode_is_refused() -> None:
    with pytest.raises(LimitExceededError):
        run_op(
            "StringSplit", texts(*["a"] * 1000, " a" * 10_000), outputs=2, limit_nbytes=10_000_000
        )


def test_split_of_nothing() -> None:
    parts, counts = run_op("StringSplit", np.empty((0, 2), dtype=object), outputs=2)
    assert (parts.shape, counts.shape) == ((0, 2, 0), (0, 2))


@pytest.mark.parametrize("action", ["LOWER", "UPPER"])
def test_change_of_case_of_one_long_text_asks_whether_the_run_is_to_end(action: str) -> None:
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1

    with polled(check):
        (found,) = run_op("StringNormalizer", texts("é" * 200_000), case_change_action=action)
    assert found == ("é" if action == "LOWER" else "É") * 200_000
    assert asked > 10


def test_malformed_pattern_is_an_error() -> None:
    with pytest.raises(ValueError, match="the regular expression '\\(a' has a"):
        run_op("RegexFullMatch", texts("a"), pattern="(a")


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("NONE", ["é", "straße", "Naïve", "İ", "ΑΣ"]),
        ("UPPER", ["É", "STRAßE", "NAÏVE", "İ", "ΑΣ"]),
        ("LOWER", ["é", "straße", "naïve", "i", "ας".replace("ς", "σ")]),
    ],
)
def test_change_of_case_keeps_accents(action: str, expected: list[str]) -> None:
    # What onnxruntime 1.31 gives in the locale C.UTF-8.
    found = run_op(
        "StringNormalizer", texts("é", "straße", "Naïve", "İ", "ΑΣ"), case_change_action=action
    )
    assert found.tolist() == expected


def test_stop_words_are_whole_elements() -> None:
    row = np.array([["b c", "B C", "c"]], dtype=object)
    assert run_op("StringNormalizer", row, is_case_sensitive=1, stopwords=["b c"]).tolist() == [
        ["B C", "c"]
    ]
    assert run_op("StringNormalizer", row, is_case_sensitive=0, stopwords=["b C"]).tolist() == [
        ["c"]
    ]
    assert run_op("StringNormalizer", row, stopwords=["B c", "C"]).tolist() == [[""]]


def test_rows_of_a_table_are_no_texts_to_normalize() -> None:
    with pytest.raises(ValueError, match=r"\[C\] or \[1, C\], not \[2, 1\]"):
        run_op("StringNormalizer", np.array([["a"], ["b"]], dtype=object))
