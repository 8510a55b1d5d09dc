"""float16 values are rounded where docs/guide.md says that a chain ends, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest
from onnx import numpy_helper

from ortpkg.compiler.machine_code.cpu_targets import host_target
from ortpkg.foundations.ep_names import CPU_EP, LLVM_EP
from ortpkg.runtime.session.inference_session import InferenceSession

Array = npt.NDArray[Any]
_HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'
_CONSTANTS: Mapping[str, Array] = {
    "axis": np.array([-1]),
    "scale": np.array(2048, np.float16),
    "zero": np.array(0, np.uint8),
    "two": np.array(2, np.int64),
    "yes": np.array([0], np.float16),
}


def _half(x: Array) -> Array:
    """Return float32 numbers rounded to float16; beyond its range they are infinite."""
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float32)


#: Each has squares of more than 65504 in its middle: nodes and the output's formula, which rounds
#: exactly where a chain ends.
_CHAINS: Mapping[str, tuple[str, Callable[[Array], Array]]] = {
    "no border": ("a = Mul(x, x) y = Sqrt(a)", lambda x: np.sqrt(x * x)),
    "a cast to integers and back": (
        "a = Mul(x, x) b = Cast<to = 6>(a) c = Cast<to = 10>(b) y = Sqrt(c)",
        lambda x: np.sqrt(np.trunc(x * x)),
    ),
    "a comparison": (
        "a = Mul(x, x) c = IsInf(a) d = Cast<to = 10>(c) y = Add(d, x)", lambda x: x,
    ),
    "a loop": (
        """a = Mul(x, x) b = Loop(two, , a) <body = g (int64 i, bool c, float16[n, 512] s)
        => (bool d, float16[n, 512] t) { d = Identity(c) t = Identity(s) }> y = Sqrt(b)""",
        lambda x: np.sqrt(_half(x * x)),
    ),
    "a quantization": (
        "a = Mul(x, x) b = QuantizeLinear(a, scale, zero) y = DequantizeLinear(b, scale, zero)",
        lambda x: np.clip(np.rint(_half(x * x) / 2048), 0, 255) * 2048,
    ),
    "a branch that takes a value from outside": (
        """a = Mul(x, x) r = ReduceMax<keepdims = 0>(x) s = ReduceMax<keepdims = 0>(yes)
        c = Greater(r, s) y = If(c) <then_branch = t () => (float16 p) { p = Sqrt(a) },
        else_branch = e () => (float16 q) { q = Neg(a) }>""",
        lambda x: np.sqrt(_half(x * x)),
    ),
}  # fmt: skip


def _run(nodes: str, x: Array, *providers: str) -> tuple[Array, set[str]]:
    """Return a chain's output, and the providers that run its nodes."""
    proto = onnx.parser.parse_model(f"{_HEADER} g (float16[n, 512] x) => (float16 y) {{ {nodes} }}")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    for name, array in _CONSTANTS.items():
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    with InferenceSession(proto.SerializeToString(), providers=list(providers)) as session:
        used = {entry.ep_name for entry in session.get_placement().entries if entry.node_count}
        (result,) = session.run(None, {"x": x})
    return np.asarray(result), used


def _numbers() -> Array:
    """Return numbers of which about half have squares that float16 lacks."""
    return np.random.default_rng(0).uniform(200, 310, (64, 512)).astype(np.float16)


@pytest.mark.parametrize("provider", ["cpu", "llvm"])
@pytest.mark.parametrize("chain", _CHAINS)
@pytest.mark.filterwarnings("ignore")
def test_values_are_rounded_where_a_chain_ends(chain: str, provider: str) -> None:
    if provider == "llvm":
        _needs_a_compiler()
    nodes, formula = _CHAINS[chain]
    x = _numbers()
    result, _ = _run(nodes, x, *dict.fromkeys((provider, "cpu")))
    wanted = _half(formula(x.astype(np.float32)))
    np.testing.assert_allclose(result.astype(np.float32), wanted, rtol=2e-3)


@pytest.mark.filterwarnings("ignore")
def test_values_are_rounded_at_the_border_of_a_compiled_piece() -> None:
    _needs_a_compiler()
    nodes, x = "a = Mul(x, x) b = Acosh(a) y = Sqrt(b)", _numbers()
    wide = x.astype(np.float32)
    engine, _ = _run(nodes, x, "cpu")
    compiled, used = _run(nodes, x, "llvm", "cpu")
    assert used == {LLVM_EP, CPU_EP}, "Acosh is left"
    np.testing.assert_allclose(engine, np.sqrt(np.arccosh(wide * wide)), rtol=2e-3)
    pieces = np.sqrt(_half(np.arccosh(_half(wide * wide))))
    assert np.isinf(pieces).any()
    np.testing.assert_allclose(compiled, pieces, rtol=2e-3)


@pytest.mark.filterwarnings("ignore")
def test_a_chain_within_the_range_gives_the_same_however_it_is_cut() -> None:
    _needs_a_compiler()
    nodes, x = "a = Mul(x, x) b = Acosh(a) y = Sqrt(b)", _numbers() / np.float16(2)
    np.testing.assert_allclose(
        _run(nodes, x, "llvm", "cpu")[0], _run(nodes, x, "cpu")[0], rtol=2e-3
    )


def _needs_a_compiler() -> None:
    pytest.importorskip("llvmlite")
    if host_target() is None:
        pytest.skip("no code is compiled for this CPU")
