"""Axes that a tensor does not have are refused by every provider, in the same sentence."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from ortpkg import InferenceSession
from ortpkg.foundations.errors import InvalidGraphError
from tests.graph.model_factories import parse


def _axis(operator: str, axis: int, *, inputs: str = "x", attributes: str = "") -> str:
    return f"""g (float[2,4,3] x, int64[2,4,3] i, float[1] s) => (float[A,B,C] y)
        {{ y = {operator}<axis = {axis}{attributes}>({inputs}) }}"""


def _axes(operator: str, *axes: int, shape: str = "2,4,3") -> str:
    return f"""g (float[{shape}] x) => (float[A,B,C] y)
        <int64[{len(axes)}] a = {{{", ".join(map(str, axes))}}}> {{ y = {operator}(x, a) }}"""


_WRONG = {
    "softmax": (_axis("Softmax", 3), "names the axis 3 of a tensor of 3 axes"),
    "softmax from the back": (_axis("LogSoftmax", -4), "a number from -3 to 2 was expected"),
    "concatenation": (_axis("Concat", 3, inputs="x, x"), "the axis 3"),
    "split": (_axis("Split", 5, attributes=", num_outputs = 1"), "the axis 5"),
    "normalization": (_axis("LayerNormalization", -4, inputs="x, s"), "the axis -4"),
    "gathered": (_axis("GatherElements", 3, inputs="x, i"), "the axis 3"),
    "reduction": (_axes("ReduceSum", 3), "the axis 3"),
    "reduction twice": (_axes("ReduceMax", 0, -3), r"names an axis twice, in \(0, -3\)"),
    "squeezed twice": (_axes("Squeeze", 0, 0, shape="1,4,1"), "names an axis twice"),
    "unsqueezed twice": (_axes("Unsqueeze", 4, -1), "names an axis twice"),
    "unsqueezed": (_axes("Unsqueeze", 4), "the axis 4 of a tensor of 4 axes"),
    "local response": (
        "g (float[2,4] x) => (float[A,B] y) { y = LRN<size = 3>(x) }",
        "takes a tensor of 2 axes; 3 or more were expected",
    ),
    "ratio": (
        "g (float[2] x) => (float[A] y) <float r = {-1.0}> { y = Dropout(x, r) }",
        "has a ratio of -1; a number from 0 to below 1 was expected",
    ),
}


@pytest.mark.parametrize("provider", ["cpu", "llvm", "openvino"])
@pytest.mark.parametrize("case", _WRONG)
def test_every_provider_refuses_wrong_axes_in_the_same_words(case: str, provider: str) -> None:
    pytest.importorskip({"llvm": "llvmlite", "openvino": "openvino"}.get(provider, "numpy"))
    text, message = _WRONG[case]
    with pytest.raises(InvalidGraphError, match=message):
        InferenceSession(
            parse(text).SerializeToString(), providers=[provider, "cpu"][: 1 + (provider != "cpu")]
        )


@pytest.mark.parametrize(
    "text",
    [
        _axis("Softmax", -3),
        _axis("Softmax", 2),
        _axes("ReduceSum", 0, 1, -1),
        _axes("Unsqueeze", 3),
        _axes("Unsqueeze", -5, 1),
        "g (float[2,4,3] x) => (float[A,B] y) { y = Flatten<axis = 3>(x) }",
    ],
)
def test_axes_that_there_are_go_through(text: str) -> None:
    """The result is that of onnx's reference implementation."""
    proto = parse(text)
    generator = np.random.default_rng(0)
    feeds = {
        value.name: generator.integers(
            0, 2, [size.dim_value for size in value.type.tensor_type.shape.dim]
        ).astype(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
        for value in proto.graph.input
    }
    expected = ReferenceEvaluator(proto).run(None, feeds)
    with InferenceSession(proto.SerializeToString(), providers=["cpu"]) as session:
        results = session.run(None, feeds)
    assert results[0].shape == np.shape(expected[0])
    np.testing.assert_allclose(results[0], expected[0], rtol=1e-6)


def test_a_scalar_has_the_axis_0_for_reductions() -> None:
    """Expect onnxruntime's result; onnx's reference implementation fails."""
    proto = parse(_axes("ReduceSum", 0, shape=""))
    with InferenceSession(proto.SerializeToString(), providers=["cpu"]) as session:
        assert session.run(None, {"x": np.array(3, np.float32)})[0].tolist() == 3
