"""What float16 operators hand to one another in a partition is float32, and no overflow of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest
from onnx import numpy_helper

from ortpkg.codegen.fusion.wide_halves import widen_halves
from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.lowering.operator_lowerings import lower_graph
from ortpkg.codegen.passes import optimized
from ortpkg.codegen.tensor_ir.tensor_program import writes_of
from ortpkg.codegen.tensor_ir.tensor_text import operations_text
from ortpkg.codegen.tensor_ir.tensor_verifier import verify_operations
from ortpkg.ep_names import LLVM_EP
from ortpkg.graph.onnx_reader import load_model
from ortpkg.machine_code.cpu_targets import host_target
from ortpkg.session.inference_session import InferenceSession
from ortpkg.shapes.inference import infer_sizes
from tests.codegen.reference_program import run_program

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


#: Nodes, and constants. Each has operations of another kind that hand halves to one another.
_HANDED_ON: Mapping[str, tuple[str, Mapping[str, Array]]] = {
    "an input under another shape": ("a = Reshape(x, s) y = Exp(a)", {"s": np.array([2, 12])}),
    "a result under another shape": (
        "a = Exp(x) b = Reshape(a, s) y = MatMul(b, w)",
        {"s": np.array([2, 12]), "w": np.ones((12, 2), np.float16)},
    ),
    "an input under another shape, and a result": (
        "r = Reshape(x, s) a = Exp(r) y = Mul(a, r)", {"s": np.array([2, 12])},
    ),
    "a choice of inputs": (
        "c = Greater(x, h) b = Where(c, x, h) y = Exp(b)", {"h": np.array([0.5], np.float16)},
    ),
    "a choice of an input and a result": (
        "a = Exp(x) c = Greater(x, h) b = Where(c, x, a) y = Mul(b, b)", {"h": np.array([0.5], np.float16)},
    ),
    "a cast of a float": ("a = Cast<to = 1>(x) b = Cast<to = 10>(a) y = Exp(b)", {}),
    "sums beside inputs": ("a = ReduceSum(x, axis) b = Mul(a, x) y = Add(b, x)", _LAST),
    "a comparison of results": (
        "a = Exp(x) c = Less(a, x) d = Neg(x) b = Where(c, a, d) y = Mul(b, x)", {},
    ),
    "a window of results": (
        ("a = Exp(x) b = Reshape(a, s) c = Conv(b, w) d = MaxPool<kernel_shape = [2]>(c)"
        " y = Mul(d, d)"),
        {"s": np.array([1, 2, 12]), "w": np.ones((1, 2, 2), np.float16)},
    ),
    "rows": (
        "a = Exp(x) b = LayerNormalization(a, s) y = Mul(b, b)",
        {"s": np.ones(8, np.float16)},
    ),
    "a recurrence": (
        ("a = Exp(x) r = Reshape(a, s) b, h = RNN<hidden_size = 2>(r, w, v) k = Add(h, h)"
        " l = Reshape(b, t) m = Reshape(k, u) n = Add(l, m) y = Mul(n, n)"),
        {
            "s": np.array([3, 1, 8]), "t": np.array([3, 2]), "u": np.array([1, 2]),
            "w": np.full((1, 2, 8), 0.125, np.float16), "v": np.full((1, 2, 2), 0.125, np.float16),
        },
    ),
    "a recurrence with a cell": (
        ("a = Exp(x) r = Reshape(a, s) b, h, c = LSTM<hidden_size = 1>(r, w, v) k = Add(h, c)"
        " l = Reshape(b, t) m = Reshape(k, u) n = Add(l, m) y = Mul(n, n)"),
        {
            "s": np.array([3, 1, 8]), "t": np.array([3, 1]), "u": np.array([1, 1]),
            "w": np.full((1, 4, 8), 0.125, np.float16), "v": np.full((1, 4, 1), 0.125, np.float16),
        },
    ),
}  # fmt: skip


#: Tensors that stay float16: nothing computed them.
_STAYING = {
    "an input under another shape": {"a"},
    "an input under another shape, and a result": {"r"},
}


@pytest.mark.parametrize("case", _HANDED_ON)
def test_widening_makes_a_valid_program_that_rounds_nothing_on_the_way(case: str) -> None:
    nodes, constants = _HANDED_ON[case]
    model = load_model(_model(nodes, constants, "float16[3, 8] x"))
    program = lower_graph(model.graph, infer_sizes(model), "program")
    widened = widen_halves(program)
    verify_operations(widened.operations)
    x = np.random.default_rng(1).uniform(0.25, 1, (3, 8)).astype(np.float16)
    (made,), (wanted,) = run_program(widened, [x]), run_program(program, [x])
    assert made.dtype == wanted.dtype == np.float16
    np.testing.assert_allclose(made.astype(float), wanted.astype(float), rtol=2e-2)
    text = operations_text(widened.operations)
    assert text.count("f16(") == 1, text
    written = {tensor for each in widened.operations for tensor in writes_of(each)}
    narrow = {tensor.name for tensor in written if tensor.scalar is Scalar.F16}
    assert narrow == {"y", *_STAYING.get(case, ())}
