"""The onnx package's node cases of the operators that have numpy kernels: all of them, three ways
each.
"""

from __future__ import annotations

import pytest

from tests.kernels.backend_cases import cases_of, check_case

FAMILIES = {
    "elementwise": (
        "Abs Acos Acosh Add Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr"
        " BitwiseXor Ceil Clip Cos Cosh Div Exp Floor Log Max Mean Min Mod Mul Neg Pow Reciprocal"
        " Round Sign Sin Sinh Sqrt Sub Sum Tan Tanh"
    ),
    "comparison": "And Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Not Or Where Xor",
    "cast": "BitCast Cast CastLike",
    "activations": (
        "Celu Elu Erf Gelu HardSigmoid HardSwish LeakyRelu Mish PRelu Relu Selu Shrink Sigmoid"
        " Softplus Softsign Swish ThresholdedRelu"
    ),
    "shape": "Flatten Identity Reshape Shape Size Squeeze Unsqueeze",
    "layout": "Concat DepthToSpace Expand Pad SpaceToDepth Split Tile Transpose",
    "index": "Compress Gather GatherElements GatherND NonZero ReverseSequence Slice Trilu",
    "scatter": "Scatter ScatterElements ScatterND TensorScatter",
    "generators": "Constant ConstantOfShape Dropout EyeLike OneHot Range",
    "products": "Einsum Gemm MatMul",
    "convolution": "Conv ConvTranspose",
    "pooling": "AveragePool GlobalAveragePool GlobalMaxPool LpPool MaxPool",
    "normalization": (
        "BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization "
        "LpNormalization MeanVarianceNormalization RMSNormalization"
    ),
    "softmax": "Hardmax LogSoftmax Softmax",
    "reduction": (
        "ArgMax ArgMin CumProd CumSum ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax"
        " ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
    ),
    "sorting": "TopK Unique",
    "resize": "Resize Upsample",
    "recurrent": "GRU LSTM RNN",
    "attention": "Attention RotaryEmbedding",
}
OPERATORS = [op_type for names in FAMILIES.values() for op_type in names.split()]


@pytest.mark.requirement("P14", "D11")
@pytest.mark.parametrize("op_type", OPERATORS)
def test_every_node_case_of_the_operator_passes(op_type: str) -> None:
    cases = cases_of(op_type)
    assert cases
    for case in cases:
        check_case(case)
