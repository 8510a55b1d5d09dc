"""What float16 operators hand to one another in a partition is float32, and no overflow of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser
import pytest
from onnx import numpy_helper

from ortpkg.compiler.fusion.substitution import replace_reads
from ortpkg.compiler.fusion.wide_halves import widen_halves
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.operator_lowerings import lower_graph
from ortpkg.compiler.machine_code.cpu_targets import host_target
from ortpkg.compiler.passes import optimized
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Element,
    Function,
    Number,
    Read,
    along,
)
from ortpkg.compiler.tensor_ir.operations import Map
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram, writes_of
from ortpkg.compiler.tensor_ir.tensor_text import operations_text
from ortpkg.compiler.tensor_ir.tensor_verifier import verify_operations
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_sizes
from ortpkg.runtime.session.inference_session import InferenceSession
from tests.compiler.attention_parts import tensor_of
from tests.compiler.reference_program import run_program

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
    (result,), (wanted,) = run_program(widened, [x]), run_program(program, [x])
    assert result.dtype == wanted.dtype == np.float16
    np.testing.assert_allclose(result.astype(float), wanted.astype(float), rtol=2e-2)
    text = operations_text(widened.operations)
    assert text.count("f16(") == 1, text
    written = {tensor for operation in widened.operations for tensor in writes_of(operation)}
    narrow = {tensor.name for tensor in written if tensor.scalar is Scalar.F16}
    assert narrow == {"y", *_STAYING.get(case, ())}


_HALF, _OTHER, _MADE_HALF, _OUTPUT = (
    tensor_of(name, 3, scalar=Scalar.F16) for name in ("half", "other", "made", "output")
)
_FLOAT, _BITS, _NUMBERS = (
    tensor_of("float", 3), tensor_of("bits", 3, scalar=Scalar.BOOL),
    tensor_of("numbers", 3, scalar=Scalar.I64),
)  # fmt: skip
_WIDE = tensor_of("wide", 3)
_READ = {
    tensor: Read(tensor, (along(0),))
    for tensor in (_HALF, _OTHER, _MADE_HALF, _FLOAT, _BITS, _NUMBERS, _WIDE)
}


def _call(function: Function, *operands: Element) -> Element:
    return Call(function, operands)


def _f32(element: Element) -> Element:
    return Convert(element, Scalar.F32)


def _f16(element: Element) -> Element:
    return Convert(element, Scalar.F16)


_ZERO, _WIDE_ZERO = Number(0.0, Scalar.F16), Number(0.0, Scalar.F32)
#: Float16 elements that stay, since nothing is computed.
_MOVES: Mapping[str, Element] = {
    "a read": _READ[_HALF],
    "a number": _ZERO,
    "a choice of inputs": _call(Function.SELECT, _READ[_BITS], _READ[_HALF], _READ[_OTHER]),
    "a choice of an input and a number": _call(Function.SELECT, _READ[_BITS], _READ[_HALF], _ZERO),
}
#: Float16 elements with what they become, over a computed tensor that is wide.
_COMPUTED: Mapping[str, tuple[Element, Element]] = {
    "a sum of inputs": (
        _call(Function.ADD, _READ[_HALF], _READ[_OTHER]),
        _f32(_call(Function.ADD, _READ[_HALF], _READ[_OTHER])),
    ),
    "a rounded float": (_f16(_READ[_FLOAT]), _READ[_FLOAT]),
    "a choice of a rounded float": (
        _call(Function.SELECT, _READ[_BITS], _READ[_HALF], _f16(_READ[_FLOAT])),
        _f32(_call(Function.SELECT, _READ[_BITS], _READ[_HALF], _f16(_READ[_FLOAT]))),
    ),
    "a choice of a negative": (
        _call(Function.SELECT, _READ[_BITS], _READ[_HALF], _call(Function.NEG, _READ[_OTHER])),
        _f32(
            _call(Function.SELECT, _READ[_BITS], _READ[_HALF], _call(Function.NEG, _READ[_OTHER]))
        ),
    ),
    "a read of what is computed": (_READ[_MADE_HALF], _READ[_WIDE]),
    "a sum of an input and what is computed": (
        _call(Function.ADD, _READ[_HALF], _READ[_MADE_HALF]),
        _call(Function.ADD, _f32(_READ[_HALF]), _READ[_WIDE]),
    ),
    "a sum of what is computed and an input": (
        _call(Function.ADD, _READ[_MADE_HALF], _READ[_HALF]),
        _call(Function.ADD, _READ[_WIDE], _f32(_READ[_HALF])),
    ),
    "a choice of an input and what is computed": (
        _call(Function.SELECT, _READ[_BITS], _READ[_HALF], _READ[_MADE_HALF]),
        _call(Function.SELECT, _READ[_BITS], _f32(_READ[_HALF]), _READ[_WIDE]),
    ),
    "a choice by what is compared": (
        _call(
            Function.SELECT, _call(Function.LT, _READ[_MADE_HALF], _READ[_HALF]), _READ[_MADE_HALF],
            _READ[_MADE_HALF],
        ),
        _call(
            Function.SELECT, _call(Function.LT, _READ[_WIDE], _f32(_READ[_HALF])), _READ[_WIDE],
            _READ[_WIDE],
        ),
    ),
    "a sum of integers": (
        _f16(_call(Function.ADD, _READ[_NUMBERS], Number(1, Scalar.I64))),
        _f32(_call(Function.ADD, _READ[_NUMBERS], Number(1, Scalar.I64))),
    ),
    "a truncated value": (
        _f16(Convert(_READ[_MADE_HALF], Scalar.I32)), _f32(Convert(_READ[_WIDE], Scalar.I32)),
    ),
    "a rounded value that is truncated": (
        _f16(Convert(_f16(_READ[_FLOAT]), Scalar.I32)),
        _f32(Convert(_f16(_READ[_FLOAT]), Scalar.I32)),
    ),
    "a value that is a float in between": (_f16(_f32(_READ[_MADE_HALF])), _READ[_WIDE]),
}  # fmt: skip


def _after_a_computed_one(value: Element) -> TensorProgram:
    maps = [
        Map(output=output, axes=(3,), value=element, coordinates=(along(0),))
        for output, element in ((_MADE_HALF, _call(Function.NEG, _READ[_HALF])), (_OUTPUT, value))
    ]
    return TensorProgram(
        name="program", inputs=(_HALF, _OTHER, _FLOAT, _BITS, _NUMBERS), outputs=(_OUTPUT,),
        constants={}, operations=tuple(maps),
    )  # fmt: skip


@pytest.mark.parametrize("case", _MOVES)
def test_halves_that_are_only_moved_stay(case: str) -> None:
    program = _after_a_computed_one(_MOVES[case])
    widened = widen_halves(program).operations
    assert operations_text(widened[1:]) == operations_text(program.operations[1:])


@pytest.mark.parametrize("case", _COMPUTED)
def test_halves_that_are_computed_become_floats_in_one_step(case: str) -> None:
    value, wanted = _COMPUTED[case]
    widened = widen_halves(_after_a_computed_one(value))
    verify_operations(widened.operations)
    first, second, rounding = widened.operations
    assert isinstance(second, Map)
    wide = Read(first.output, (along(0),))
    expected = replace_reads(wanted, lambda read: wide if read.tensor is _WIDE else read)
    assert second.value == expected
    assert isinstance(rounding, Map)
    assert rounding.value == _f16(Read(second.output, (along(0),)))
