"""Operations of the tensor IR are shown as text that people read."""

from __future__ import annotations

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Coordinate,
    Function,
    Made,
    Number,
    Read,
    Tensor,
    along,
)
from ortpkg.compiler.tensor_ir.operations import Combiner, Map, Reduce
from ortpkg.compiler.tensor_ir.tensor_text import operations_text
from ortpkg.graph.shapes.expressions import symbol


def test_operations_are_formulas_over_their_axes() -> None:
    x, bias = Tensor("x", Scalar.F32, (symbol("n"), 8)), Tensor("bias", Scalar.F32, (16,))
    y, mean = Tensor("y", Scalar.F16, (symbol("n"), 8)), Tensor("y", Scalar.F32, (symbol("n"),))
    shifted = Read(bias, (Coordinate(((1, 2),), 1),))
    total = Call(Function.ADD, (Read(x, (along(0), along(1))), shifted))
    relu = Call(Function.MAX, (total, Number(0.0, Scalar.F32)))
    operations = (
        Map(output=y, axes=x.shape, value=Convert(relu, Scalar.F16), coordinates=(along(0), along(1))),
        Reduce(
            output=mean, axes=(symbol("n"),), reduced=(8,), combiner=Combiner.SUM,
            value=Read(x, (along(0), along(1))),
            epilogue=Call(Function.DIV, (Made(Scalar.F32), Number(8.0, Scalar.F32))),
        ),
    )  # fmt: skip
    assert operations_text(operations) == (
        "y: f16[n, 8] = map\n"
        "    axes: (n, 8)\n"
        "    value: f16(max((x[a0, a1] + bias[(2)*a1 + 1]), 0.0))\n"
        "    coordinates: (a0, a1)\n"
        "y#2: f32[n] = reduce\n"
        "    axes: (n)\n"
        "    reduced: (8)\n"
        "    combiner: sum\n"
        "    value: x[a0, a1]\n"
        "    epilogue: (made / 8.0)\n"
    )


def test_names_of_models_and_long_formulas_are_bounded() -> None:
    x = Tensor("\x1b[31m" + "x" * 1000, Scalar.F32, (3,))
    value: Call | Read = Read(x, (along(0),))
    for _ in range(40):
        value = Call(Function.ADD, (value, Read(x, (along(0),))))
    for _ in range(8):
        value = Call(Function.MUL, (value, value))
    operation = Map(
        output=Tensor("y", Scalar.F32, (3,)), axes=(3,), value=value, coordinates=(along(0),)
    )
    text = operations_text([operation])
    assert "\x1b" not in text
    assert len(text) < 10_000
