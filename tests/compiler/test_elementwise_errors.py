"""Operators of floats, as they are compiled, stay within errors that are stated, for all floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest
from onnx import numpy_helper

from ortpkg.compiler.machine_code.cpu_targets import host_target
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.runtime.session.inference_session import InferenceSession

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")

Array = npt.NDArray[Any]
_HEADER = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>\n'
_EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 2.0**-126], np.float32)


def _floats() -> Array:
    """Floats of all exponents, dense ones around 0, and the edges."""
    bits = np.arange(0, 1 << 32, 65_521, dtype=np.uint64).astype(np.uint32)
    dense = [np.linspace(-most, most, 20_001).astype(np.float32) for most in (1, 10, 100)]
    return np.concatenate([bits.view(np.float32), *dense, _EDGES])


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small / (1 + small), 1 / (1 + small))


def _exponential_below(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


def _gelu_by_tanh(x: Array) -> Array:
    return x * _sigmoid(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))


def _made(node: str, x: Array) -> Array:
    """The compiled node of ``x``, and of an exponent ``e`` where the node has one."""
    proto = onnx.parser.parse_model(f"{_HEADER} g (float[n] x) => (float[n] y) {{ y = {node} }}")
    if "half" in node:
        proto.graph.initializer.append(numpy_helper.from_array(np.array(0.5, np.float32), "half"))
    with InferenceSession(proto.SerializeToString(), providers=["llvm", "cpu"]) as session:
        used = [each.ep_name for each in session.get_placement().entries if each.node_count]
        assert used == [LLVM_EP]
        made: Array = session.run(None, {"x": x})[0]
    return made


def _check_edges(made: Array, wanted: Array) -> None:
    """Zeros with their signs, infinities and NaN are where they should be."""
    is_edge = ~np.isfinite(wanted)
    np.testing.assert_array_equal(made[is_edge], wanted[is_edge])
    is_zero = wanted == 0
    assert not made[is_zero & (np.abs(made) > 2.0**-126)].size
    both = is_zero & (made == 0)
    np.testing.assert_array_equal(np.signbit(made[both]), np.signbit(wanted[both]))


#: Node → what it should be in float64, and the units in the last place by which it is off at most.
#: Results below the least normal float are held to units of that one.
_RELATIVE: dict[str, tuple[Callable[[Array], Array], float]] = {
    "Softplus(x)": (lambda x: np.logaddexp(0, x), 4),
    "Elu(x)": (_exponential_below, 6),
    "Celu<alpha = 1.0>(x)": (_exponential_below, 6),
    "Selu(x)": (
        lambda x: 1.05070102214813232421875 * _exponential_below(x, 1.67326319217681884765625), 7,
    ),
    "Mish(x)": (lambda x: x * np.tanh(np.logaddexp(0, x)), 5),
    "Softsign(x)": (lambda x: x / (1 + np.abs(x)), 2),
    "Sigmoid(x)": (_sigmoid, 3),
    "Tanh(x)": (np.tanh, 3),
    "Exp(x)": (np.exp, 2),
    "Log(x)": (np.log, 2),
    "Sqrt(x)": (np.sqrt, 0.5),
    "Reciprocal(x)": (lambda x: 1 / x, 0.5),
    "Pow(x, half)": (lambda x: np.where(np.isneginf(x), np.inf, np.sqrt(x) + 0.0), 0.5),
}  # fmt: skip


@pytest.mark.parametrize("node", _RELATIVE)
def test_units_in_the_last_place(node: str) -> None:
    function, most = _RELATIVE[node]
    x = _floats()
    with np.errstate(all="ignore"):
        wanted = function(x.astype(np.float64))
        made = _made(node, x)
        rounded = wanted.astype(np.float32)
        units = np.maximum(np.abs(np.spacing(rounded)), 2.0**-149 * 2**23).astype(np.float64)
        errors = np.abs(made - wanted) / units
    _check_edges(made, rounded)
    finite = np.isfinite(rounded)
    worst = int(np.argmax(np.where(finite, errors, 0)))
    assert errors[worst] <= most, f"{made[worst]} for {wanted[worst]}, of {x[worst]}"


#: Node → what it should be, and the error in units of float32 at 1, as a part of the input's size:
#: where results come from a difference, they are small beside what they are made of.
_ABSOLUTE: dict[str, tuple[Callable[[Array], Array], float]] = {
    'Gelu<approximate = "tanh">(x)': (_gelu_by_tanh, 2),
    "com.microsoft.FastGelu(x)": (_gelu_by_tanh, 2),
    "com.microsoft.QuickGelu(x)": (lambda x: x * _sigmoid(1.702 * x), 2),
    "HardSwish(x)": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), 2),
}


@pytest.mark.parametrize("node", _ABSOLUTE)
def test_errors_beside_the_input(node: str) -> None:
    function, most = _ABSOLUTE[node]
    x = _floats()
    x = x[np.abs(x) < 1e12]
    wanted = function(x.astype(np.float64))
    allowed = most * 2.0**-23 * np.abs(x.astype(np.float64)) + 2.0**-126
    errors = np.abs(_made(node, x) - wanted)
    assert (errors <= allowed).all(), x[errors > allowed][:5]


def test_tails_of_gelu_by_tanh_are_small_numbers() -> None:
    """Where 1 + tanh cancels, results had a share of 2**-25 of the input in the place of these."""
    x = np.array([-6, -8, -10], np.float32)
    np.testing.assert_allclose(
        _made('Gelu<approximate = "tanh">(x)', x), _gelu_by_tanh(x.astype(np.float64)), rtol=1e-4
    )


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_a_gemm_whose_beta_is_0_reads_no_c(beta: float) -> None:
    text = f"""g (float[n, 2] x, float[2, 3] w, float[3] c) => (float[n, 3] y)
        {{ y = Gemm<beta = {beta}>(x, w, c) }}"""
    model = onnx.parser.parse_model(_HEADER + text).SerializeToString()
    feeds = {
        "x": np.ones((1, 2), np.float32),
        "w": np.ones((2, 3), np.float32),
        "c": np.array([np.nan, np.inf, 1], np.float32),
    }
    with InferenceSession(model, providers=["llvm", "cpu"]) as session:
        (made,) = session.run(None, feeds)
    np.testing.assert_array_equal(made, [[np.nan, np.inf, 3] if beta else [2, 2, 2]])


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("diagonal", [2**63 - 1, -(2**63), 3, -3, 0])
def test_a_triangle_by_any_diagonal(diagonal: int, upper: int) -> None:
    text = f"""g (float[n, 4] x) => (float[n, 4] y) {{ y = Trilu<upper = {upper}>(x, k) }}"""
    proto = onnx.parser.parse_model(_HEADER + text)
    proto.graph.initializer.append(numpy_helper.from_array(np.array(diagonal), "k"))
    x = np.ones((3, 4), np.float32)
    with InferenceSession(proto.SerializeToString(), providers=["llvm", "cpu"]) as session:
        (made,) = session.run(None, {"x": x})
    cut = max(-5, min(diagonal, 5))
    np.testing.assert_array_equal(made, np.triu(x, cut) if upper else np.tril(x, cut))


@pytest.mark.parametrize("step", [2**63 - 1, -(2**63), 2**40, -(2**40)])
def test_a_slice_by_the_longest_steps_takes_its_first_element(step: int) -> None:
    text = "g (float[n, 3] x) => (float[m, 3] y) { y = Slice(x, b, e, a, s) }"
    proto = onnx.parser.parse_model(_HEADER + text)
    ends = (0, 2**62) if step > 0 else (-1, -(2**63))
    for name, number in zip("beas", (*ends, 0, step), strict=True):
        proto.graph.initializer.append(numpy_helper.from_array(np.array([number]), name))
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    with InferenceSession(proto.SerializeToString(), providers=["llvm", "cpu"]) as session:
        (made,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(made, x[:1] if step > 0 else x[3:])
