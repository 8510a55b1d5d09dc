"""Texts and elements of sequences count for a run's memory limit, each while somebody holds it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.runtime.engine.kept_parts import ValueParts, string_data_nbytes
from ortpkg.runtime.engine.run_control import RunControl
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions

LIMIT_NBYTES = 4_000_000


def run(text: str, **feeds: Any) -> list[Any]:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]>\n{text}')
    options = SessionOptions(memory_limit_nbytes=LIMIT_NBYTES)
    with InferenceSession(model.SerializeToString(), options, ["cpu"]) as session:
        return list(session.run(None, feeds))


def growing_sequence(length: int, kept: int) -> str:
    """``length`` times a megabyte is appended, and the first taken out beyond ``kept``."""
    lines = ["s0 = SequenceConstruct(x)"]
    for number in range(length):
        lines += [f"t{number} = SequenceInsert(s{number}, x)"]
        if number < kept:
            lines += [f"s{number + 1} = Identity(t{number})"]
        else:
            lines += [f"s{number + 1} = SequenceErase(t{number}, first)"]
    body = "\n".join(lines)
    return f"g (float[n] x, int64 first) => (int64 y) {{\n{body}\ny = SequenceLength(s{length})\n}}"


MEGABYTE = np.ones(250_000, np.float32)
FIRST = np.array(0)


def test_sequence_that_grows_by_insertion_passes_the_limit() -> None:
    with pytest.raises(LimitExceededError, match=r"SequenceInsert.* memory limit of 4 MB"):
        run(growing_sequence(8, 8), x=MEGABYTE, first=FIRST)


def test_elements_that_several_sequences_hold_count_once_and_those_taken_out_no_more() -> None:
    (length,) = run(growing_sequence(12, 2), x=MEGABYTE, first=FIRST)
    assert length == 3


def test_sequence_that_a_loop_grows_passes_the_limit() -> None:
    text = """g (float[n] x) => (seq(float[m]) y) <int64 turns = {20}> {
        empty = SequenceEmpty()
        y = Loop(turns, , empty) <body = b (int64 i, bool go, seq(float[m]) s) => (bool on, seq(float[m]) t) {
            on = Identity(go)
            t = SequenceInsert(s, x)
        }>
    }"""
    with pytest.raises(LimitExceededError, match="memory limit of 4 MB"):
        run(text, x=MEGABYTE)


def test_texts_that_double_pass_the_limit_together() -> None:
    """None of them passes it alone."""
    lines = [f"t{number + 1} = StringConcat(t{number}, t{number})" for number in range(10)]
    lines += [f"y{number} = StringConcat(t10, t{number})" for number in range(6)]
    outputs = ", ".join(f"string[n] y{number}" for number in range(6))
    text = f"g (string[n] t0) => ({outputs}) {{\n" + "\n".join(lines) + "\n}"
    with pytest.raises(LimitExceededError, match="memory limit of 4 MB"):
        run(text, t0=np.array(["a" * 1000], dtype=object))


@pytest.mark.parametrize("operator", ["Cast <to = 8>", "StringSplit"])
def test_many_small_texts_pass_the_limit_before_they_are_made(operator: str) -> None:
    kind = "float" if operator != "StringSplit" else "string"
    outputs = "string[m] y" if operator != "StringSplit" else "string[m, k] y, int64[m] count"
    names = "y" if operator != "StringSplit" else "y, count"
    x: Any = np.ones(100_000, np.float32) if kind == "float" else np.array(["a " * 100_000], object)
    with pytest.raises(LimitExceededError, match="memory limit of 4 MB"):
        run(f"g ({kind}[n] x) => ({outputs}) {{ {names} = {operator}(x) }}", x=x)


def test_text_that_comes_again_counts_once() -> None:
    text = "a" * 1000
    assert string_data_nbytes(np.array([text] * 100, dtype=object)) < 1100


def test_what_a_frame_kept_is_given_back_at_its_end() -> None:
    control = RunControl(memory_limit_nbytes=1000)
    for _ in range(3):
        parts = ValueParts(control)
        element = np.ones(100, np.float32)
        assert parts.keep(0, [element])
        assert parts.keep(1, [element, element])
        assert parts.keep(2, np.array(["a" * 300], dtype=object))
        assert not parts.keep(3, element)
        parts.give_back(0)
        with pytest.raises(LimitExceededError):
            parts.keep(4, [np.ones(100, np.float32)])
        parts.close()
