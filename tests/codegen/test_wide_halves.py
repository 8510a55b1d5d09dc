"""What float16 operators hand to one another in a partition is float32, and no overflow of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest
from onnx import numpy_helper

from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.lowering.operator_lowerings import lower_graph
from ortpkg.codegen.passes import optimized
from ortpkg.codegen.tensor_ir.tensor_program import writes_of
from ortpkg.ep_names import LLVM_EP
from ortpkg.graph.onnx_reader import load_model
from ortpkg.machine_code.cpu_targets import host_target
from ortpkg.session.inference_session import InferenceSession
from ortpkg.shapes.inference import infer_sizes

Array = npt.NDArray[Any]
_HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'
_LAST: Mapping[str, Array] = {"axis": np.array([-1])}
#: For each chain: its nodes, constants, and the largest element of its input. Squares of more than
#: 255 are infinite in float16.
_CHAINS: Mapping[str, tuple[str, Mapping[str, Array], float]] = {
    "square root of a square": ("a = Mul(x, x) y = Sqrt(a)", {}, 300),
    "logarithm of a power": ("a = Exp(x) y = Log(a)", {}, 30),
    "layer normalization": (
        "y = LayerNormalization(x, s)", {"s": np.ones(8, np.float16)}, 9000,
    ),
    "composed normalization": (
        """m = ReduceMean(x, axis) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, axis)
        e = Sqrt(v) y = Div(d, e)""", _LAST, 9000,
    ),
    "softmax of large scores": (
        "a = MatMul(x, w) b = Softmax(a) y = Mul(b, b)",
        {"w": np.full((8, 4), 300, np.float16)}, 300,
    ),
    "moves between": (
        "a = Mul(x, x) b = Reshape(a, s) c = Transpose(b) y = Sqrt(c)",
        {"s": np.array([0, 2, 4])}, 300,
    ),
    "choices between": ("a = Mul(x, x) c = Greater(a, x) b = Where(c, a, x) y = Sqrt(b)", {}, 300),
    "casts between": ("a = Mul(x, x) b = Cast<to = 1>(a) c = Cast<to = 10>(b) y = Sqrt(c)", {}, 300),
    "sums": ("a = ReduceSumSquare(x, axis) y = Sqrt(a)", _LAST, 300),
    "an activation": ("a = Mul(x, x) b = Gelu(a) y = Sqrt(b)", {}, 300),
    "a value beside a smaller one": (
        "a = Mul(x, x) b = Concat<axis = 0>(a, x) y = Sqrt(b)", {}, 300,
    ),
}  # fmt: skip


def _model(nodes: str, constants: Mapping[str, Array], inputs: str = "float16[n, 8] x") -> bytes:
    proto = onnx.parser.parse_model(f"{_HEADER} g ({inputs}) => (float16 y) {{ {nodes} }}")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    for name, array in constants.items():
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    made: bytes = proto.SerializeToString()
    return made


@pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")
@pytest.mark.parametrize("chain", _CHAINS)
def test_what_exceeds_float16_on_the_way_stays_finite(chain: str) -> None:
    """As docs/guide.md promises, and as the numpy engine has it."""
    pytest.importorskip("llvmlite")
    nodes, constants, largest = _CHAINS[chain]
    x = (np.random.default_rng(0).uniform(0.8, 1, (3, 8)) * largest).astype(np.float16)
    model = _model(nodes, constants)
    with (
        InferenceSession(model, providers=["llvm", "cpu"]) as compiled,
        InferenceSession(model, providers=["cpu"]) as engine,
    ):
        used = [each.ep_name for each in compiled.get_placement().entries if each.node_count]
        assert used == [LLVM_EP]
        (made,), (wanted,) = compiled.run(None, {"x": x}), engine.run(None, {"x": x})
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(made, wanted, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("nodes", "inputs", "computed"),
    [
        ("y = Transpose(x)", "float16[n, 8] x", 0),
        ("y = Concat<axis = 0>(x, x)", "float16[n, 8] x", 0),
        # a cache that grows: what is added to it is rounded where it is written
        ("a = Relu(z) y = Concat<axis = 0>(x, a)", "float16[n, 8] x, float16[m, 8] z", 0),
        ("a = Relu(x) b = MatMul(a, a) y = Exp(b)", "float16[8, 8] x", 1),
    ],
)
def test_what_only_moves_stays_float16(nodes: str, inputs: str, computed: int) -> None:
    model = load_model(_model(nodes, {}, inputs))
    program = optimized(lower_graph(model.graph, infer_sizes(model), "program"))
    kinds = [each.scalar for operation in program.operations for each in writes_of(operation)]
    assert program.outputs[0].scalar is Scalar.F16
    assert kinds.count(Scalar.F32) == computed
