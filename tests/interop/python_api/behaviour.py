"""A behaviour of onnxruntime's module, as a function that finds it in any such module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

OPSET = 21
CPU = ["CPUExecutionProvider"]
X = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
#: y = x * w, with w = x.
MUL = "g (float[3,2] x) => (float[3,2] y) <float[3,2] w = {1,2,3,4,5,6}> { y = Mul(x, w) }"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One thing that upstream's own tests assert.

    Attributes:
        name: the function's.
        says: what holds, in a sentence.
        check: raises AssertionError, or whatever goes wrong, where it does not hold; called with
            the module and an empty folder, which is the current one.
        missing: why it does not hold in ortpkg; "" where it does.
        since: the first release of onnxruntime that behaves so.
    """

    name: str
    says: str
    check: Callable[[Any, Path], None]
    missing: str = ""
    since: str = "1.31"


class Behaviours:
    """A list that functions are added to by decorating them."""

    def __init__(self) -> None:
        self.all: list[Behaviour] = []

    def __call__(
        self, says: str, *, missing: str = "", since: str = "1.31"
    ) -> Callable[[Callable[[Any, Path], None]], Callable[[Any, Path], None]]:
        def add(check: Callable[[Any, Path], None]) -> Callable[[Any, Path], None]:
            self.all.append(Behaviour(check.__name__, says, check, missing, since))
            return check

        return add


def model_of(text: str, *, opset: int = OPSET, domains: str = "") -> onnx.ModelProto:
    """A model from the text of its graph."""
    return onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : {opset}{domains}]>\n{text}'
    )


def bytes_of(text: str, **options: Any) -> bytes:
    return bytes(model_of(text, **options).SerializeToString())


def session_of(ort: Any, text: str, options: Any = None, **model_options: Any) -> Any:
    return ort.InferenceSession(bytes_of(text, **model_options), options, providers=CPU)


def native(ort: Any) -> Any:
    """The module with the exceptions and native classes."""
    return import_module(f"{ort.__name__}.capi.onnxruntime_pybind11_state")


def raises(kinds: Any, text: str, call: Callable[[], object]) -> None:
    """Asserts that ``call`` raises one of ``kinds`` with ``text`` in its message."""
    with pytest.raises(kinds) as caught:
        call()
    assert text in str(caught.value), str(caught.value)


def same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)
