"""Sessions from a few lines of ONNX text, every plan proved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import VERIFY_PLAN_ENTRY, SessionOptions

OPSET = 21
#: Nodes one behind the other, of which some values are used again: memory can be shared, not all.
CHAIN = """g (float[N] x) => (float[N] y) {
    a = Exp(x)
    b = Tanh(a)
    c = Add(b, x)
    d = Mul(c, a)
    e = Sigmoid(d)
    y = Sub(e, c)
}"""


def model_of(text: str, *, opset: int = OPSET) -> onnx.ModelProto:
    """A model from the text of its graph."""
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}')


def compiling() -> SessionOptions:
    """Options of an execution provider that compiles."""
    options = SessionOptions()
    options.add_session_config_entry("ortpkg.backend", "llvm")
    return options


def options_of(**options: Any) -> SessionOptions:
    """Session options that prove every plan."""
    found = SessionOptions(**options)
    found.add_session_config_entry(VERIFY_PLAN_ENTRY, "1")
    return found


def session_of(text: str, **options: Any) -> InferenceSession:
    return InferenceSession(model_of(text).SerializeToString(), options_of(**options))


def reference(text: str, feeds: Mapping[str, Any]) -> list[Any]:
    """What onnx.reference computes."""
    from onnx.reference import ReferenceEvaluator

    with np.errstate(all="ignore"):
        return list(ReferenceEvaluator(model_of(text)).run(None, dict(feeds)))


def assert_as_reference(
    text: str, feeds: Mapping[str, Any], *, runs: int = 3, **options: Any
) -> None:
    """Our session agrees with onnx.reference, in first (traced) and later (patterned) runs."""
    expected = reference(text, feeds)
    with session_of(text, **options) as session:
        for _ in range(runs):
            for ours, theirs in zip(session.run(None, feeds), expected, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


#: A little residual network with a dynamic batch.
RESIDUAL = """
g (float[N,8] x) => (float[N,8] y)
<float[8,8] w = {0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,
0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,
0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8}>
{
    a = MatMul(x, w)
    b = Tanh(a)
    c = MatMul(b, w)
    d = Add(c, a)
    e = Sigmoid(d)
    y = Mul(e, x)
}
"""

COUNTING_LOOP = """
g (int64 count, bool first, float[2] start) => (float[2] last, float[K,2] all) {
    step = Constant<value = float[2] {1.0, 2.0}>()
    last, all = Loop (count, first, start) <body = body
        (int64 i, bool keep, float[2] state) => (bool keep_out, float[2] next, float[2] seen) {
            keep_out = Identity(keep)
            next = Add(state, step)
            seen = Mul(next, next)
        }>
}
"""

ENDLESS_LOOP = """
g (float[2] start) => (float[2] last) {
    yes = Constant<value = bool {1}>()
    last = Loop (, yes, start) <body = body (int64 i, bool keep, float[2] state) => (bool keep_out, float[2] next) {
        keep_out = Identity(keep)
        next = Add(state, state)
    }>
}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with RESIDUAL in it."""
    made = tmp_path / "model.onnx"
    made.write_bytes(model_of(RESIDUAL).SerializeToString())
    return made
