"""MatMul, Gemm, their fused forms, Einsum."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ortpkg.runtime.kernels.op_kernel import Tensor
from tests.kernels.node_runner import run_op
from tests.kernels.onnxruntime_peer import run_on_onnxruntime

RANDOM = np.random.default_rng(7)


def normal(*shape: int) -> Tensor:
    return RANDOM.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((4,), (4,)),
        ((3, 4), (4,)),
        ((4,), (4, 2)),
        ((4,), (5, 4, 2)),
        ((5, 3, 4), (4,)),
        ((2, 5, 3, 4), (4, 6)),
        ((5, 3, 4), (2, 1, 4, 6)),
        ((0, 4), (4, 6)),
        ((3, 0), (0, 6)),
    ],
)
def test_matmul_has_the_shapes_of_numpy(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = normal(*a), normal(*b)
    result = run_op("MatMul", x, y)
    assert result.shape == (x @ y).shape
    np.testing.assert_allclose(
        result, x.astype(np.float64) @ y.astype(np.float64), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ((2, 3), (4, 5), r"shapes \(2, 3\) and \(4, 5\) do not multiply: 3 columns meet 4 rows"),
        ((2, 2, 3), (3, 3, 5), r"shapes \(2,\) and \(3,\) do not broadcast together"),
        ((), (3,), "a scalar has no matrix product"),
    ],
)
def test_matmul_says_what_does_not_fit(a: Any, b: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_op("MatMul", np.ones(a, np.float32), np.ones(b, np.float32))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_products_accumulate_in_float32(dtype: Any) -> None:
    """A sum of ones in the type itself would stall at 2048 (float16) or 256 (bfloat16)."""
    a, b = np.ones((1, 4096), dtype), np.ones((4096, 1), dtype)
    for constant_slots in ((), (1,)):
        result = run_op("MatMul", a, b, constant_slots=constant_slots)
        assert result.dtype == dtype
        assert float(result[0, 0]) == 4096


def test_integer_products_are_exact() -> None:
    a, b = np.array([[2**31, 3]], np.int64), np.array([[5], [2**32]], np.int64)
    assert run_op("MatMul", a, b).tolist() == [[2**31 * 5 + 3 * 2**32]]


@pytest.mark.parametrize("c", [None, (), (1,), (5,), (3, 1), (3, 5)])
@pytest.mark.parametrize("trans", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_gemm_broadcasts_c_and_transposes(c: Any, trans: tuple[int, int]) -> None:
    a, b = normal(3, 4), normal(4, 5)
    inputs = [a.T.copy() if trans[0] else a, b.T.copy() if trans[1] else b]
    expected = 0.5 * (a @ b)
    if c is not None:
        inputs.append(normal(*c))
        expected = expected + 2 * inputs[2]
    result = run_op("Gemm", *inputs, transA=trans[0], transB=trans[1], alpha=0.5, beta=2.0)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_gemm_does_not_let_c_grow_the_product() -> None:
    with pytest.raises(
        ValueError,
        match=r"C of shape \(2, 3, 5\) does not broadcast to the product's shape \(3, 5\)",
    ):
        run_op("Gemm", normal(3, 4), normal(4, 5), normal(2, 3, 5))


def test_gemm_of_integers_scales_before_it_truncates() -> None:
    a, b = np.array([[3]], np.int32), np.array([[5]], np.int32)
    assert run_op("Gemm", a, b, alpha=0.5).tolist() == [[7]]


@pytest.mark.parametrize(
    ("a", "b", "attributes"),
    [
        ((2, 3, 4), (2, 5, 4), {"transB": 1, "alpha": 0.5}),
        ((2, 4, 3), (4, 5), {"transA": 1}),
        ((3, 2, 4), (2, 4, 5), {"transBatchA": 1}),
        ((3, 2, 4), (3, 2, 4), {"transBatchA": 1, "transBatchB": 1, "transB": 1}),
    ],
)
def test_fused_matmul_agrees_with_onnxruntime(a: Any, b: Any, attributes: dict[str, Any]) -> None:
    x, y = normal(*a), normal(*b)
    expected = run_on_onnxruntime("FusedMatMul", x, y, **attributes)
    result = run_op("FusedMatMul", x, y, domain="com.microsoft", **attributes)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3)])
def test_fused_matmul_transposes_a_matrix_before_a_vector(shape: tuple[int, ...]) -> None:
    """onnxruntime 1.31 reads the matrix as if it had been reshaped here.

    Its own Transpose and MatMul disagree.
    """
    x, y = normal(*shape), normal(4)
    result = run_op("FusedMatMul", x, y, domain="com.microsoft", transA=1)
    np.testing.assert_allclose(result, np.swapaxes(x, -1, -2) @ y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [
        ("Relu", {}),
        ("Tanh", {}),
        ("Sigmoid", {}),
        ("Softplus", {}),
        ("Softsign", {}),
        ("LeakyRelu", {"alpha": 0.2}),
        ("Elu", {"alpha": 0.7}),
        ("ThresholdedRelu", {"alpha": 0.3}),
        ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
        ("Selu", {"alpha": 1.5, "gamma": 1.2}),
        ("ScaledTanh", {"alpha": 0.7, "beta": 0.9}),
        ("ParametricSoftplus", {"alpha": 0.7, "beta": 0.9}),
    ],
)
def test_fused_gemm_agrees_with_onnxruntime(activation: str, parameters: dict[str, float]) -> None:
    inputs = normal(3, 4), normal(4, 5), normal(5)
    attributes: dict[str, Any] = {f"activation_{name}": value for name, value in parameters.items()}
    attributes["activation"] = activation
    expected = run_on_onnxruntime("FusedGemm", *inputs, **attributes)
    np.testing.assert_allclose(
        run_op("FusedGemm", *inputs, domain="com.microsoft", **attributes),
        expected,
        rtol=1e-4,
        atol=1e-5,
    )


def test_a_fused_activation_without_parameters_has_those_of_its_operator() -> None:
    a, b = normal(3, 4), normal(4, 5)
    product = run_op("Gemm", a, b)
    for activation in ("Elu", "Selu", "ThresholdedRelu", "LeakyRelu", "HardSigmoid"):
        fused = run_op("FusedGemm", a, b, domain="com.microsoft", activation=activation)
        np.testing.assert_allclose(fused, run_op(activation, product), rtol=1e-5, atol=1e-6)
    only_beta = run_op(
        "FusedGemm", a, b, domain="com.microsoft", activation="HardSigmoid", activation_beta=0.1
    )
    np.testing.assert_allclose(
        only_beta, run_op("HardSigmoid", product, beta=0.1), rtol=1e-5, atol=1e-6
    )


def test_more_parameters_than_a_fused_activation_has_are_refused() -> None:
    attributes: dict[str, Any] = {"activation": "LeakyRelu", "activation_params": [0.1, 0.2]}
    with pytest.raises(
        ValueError, match="LeakyRelu has 1 parameters, but activation_params lists 2"
    ):
        run_op("FusedGemm", normal(3, 4), normal(4, 5), domain="com.microsoft", **attributes)


def test_unknown_fused_activation_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no fused activation 'Sine'"):
        run_op("FusedGemm", normal(3, 4), normal(4, 5), domain="com.microsoft", activation="Sine")


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("...ij,...jk", [(5, 2, 3), (1, 3, 4)]),
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("i,j,k->kij", [(2,), (3,), (4,)]),
        (" ii -> i ", [(3, 3)]),
    ],
)
def test_einsum_is_that_of_numpy(equation: str, shapes: list[tuple[int, ...]]) -> None:
    inputs = [normal(*shape) for shape in shapes]
    expected = np.einsum(equation.replace(" ", ""), *inputs)
    np.testing.assert_allclose(
        run_op("Einsum", *inputs, equation=equation), expected, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk->ik", [(2, 3), (4, 5)], "the label 'j' stands for axes of size 3 and 4"),
        ("ij->ij", [(2,)], r"the term 'ij' does not fit an input of shape \(2,\)"),
        ("ij,jk->ik", [(2, 3)], "the equation names 2 inputs, but 1 are given"),
        ("ij->ik", [(2, 3)], "the output 'ik' has labels that no input has"),
        ("i1->i", [(2, 3)], "'i1->i' is no Einstein summation"),
    ],
)
def test_einsum_says_what_does_not_fit(equation: str, shapes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_op("Einsum", *(normal(*shape) for shape in shapes), equation=equation)
