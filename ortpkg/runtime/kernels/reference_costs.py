"""Costs of the reference implementation for a node: elements that it makes, operations.

Only costs that do not follow from the sizes of its inputs are here: outputs that are larger than a
constant times them, sums of broadcast values, and calls that cannot be interrupted.

Source: ``onnx.reference.ops``, operator by operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ortpkg.runtime.kernels.op_kernel import OpKernelInfo, Tensor

SizeRule = Callable[[OpKernelInfo, Sequence[Tensor]], int]

#: Numbers of arrays of a result's size that are held at once: for sums and products of broadcast
#: values, for scores and their post-transform, and for one head's state.
_UPDATE_ARRAYS, _SCORE_ARRAYS, _STATE_ARRAYS = 8, 3, 4


def _broadcast_elements(*inputs: Tensor) -> int:
    """Return a bound on the number of elements of these tensors' broadcast result."""
    rank = max((value.ndim for value in inputs), default=0)
    shapes = [(1,) * (rank - value.ndim) + value.shape for value in inputs]
    return math.prod(max(sizes) for sizes in zip(*shapes, strict=True))


def _updated_elements(count_of_tensors: int) -> SizeRule:
    """Make the rule of an optimizer.

    Its inputs are a rate, a step, and then ``count_of_tensors`` lists of tensors in a row.
    """

    def elements(_info: OpKernelInfo, inputs: Sequence[Tensor]) -> int:
        tensors = inputs[2:]
        updates = max(len(tensors) // count_of_tensors, 1)
        return _UPDATE_ARRAYS * sum(
            _broadcast_elements(*inputs[:2], *tensors[number::updates]) for number in range(updates)
        )

    return elements


def _product_elements(_info: OpKernelInfo, inputs: Sequence[Tensor]) -> int:
    """Return the elements of QLinearMatMul: the product in 32 bits, and twice in 64."""
    a, b = inputs[0], inputs[3]
    rows, columns = a[..., :1] if a.ndim > 1 else a[:1], b[..., :1, :] if b.ndim > 1 else b[:1]
    return _SCORE_ARRAYS * _broadcast_elements(rows, columns) + a.size + b.size


def _state_elements(info: OpKernelInfo, inputs: Sequence[Tensor]) -> int:
    """Return the elements of LinearAttention: a state of keys by values for each query head."""
    query, value = inputs[0], inputs[2]
    heads, kv_heads = info.attribute("q_num_heads", 1), info.attribute("kv_num_heads", 1)
    key_size, value_size = query.shape[-1] // max(heads, 1), value.shape[-1] // max(kv_heads, 1)
    state = query.shape[0] * max(heads, kv_heads) * key_size * value_size
    return int(_STATE_ARRAYS * state + 2 * query.shape[0] * query.shape[1] * heads * value_size)


def _padded_elements(_info: OpKernelInfo, inputs: Sequence[Tensor]) -> int:
    """Return the elements of CausalConvWithState: each channel with its past, and the result."""
    x, weight = inputs[0], inputs[1]
    return int(_SCORE_ARRAYS * x.shape[0] * x.shape[1] * (weight.shape[2] + x.shape[2]))


def _deformed_elements(_info: OpKernelInfo, inputs: Sequence[Tensor]) -> int:
    """Return the elements of DeformConv: the result, and a mask if none is given."""
    x, weight, offset = inputs[:3]
    positions = x.shape[0] * math.prod(offset.shape[2:])
    return int(positions * (weight.shape[0] + offset.shape[1]))


#: (domain, operator) → number of elements of its output, if that is more than a constant times its
#: inputs.
OUTPUT_ELEMENTS: Mapping[tuple[str, str], SizeRule] = {
    ("", "CausalConvWithState"): _padded_elements,
    ("", "DeformConv"): _deformed_elements,
    ("", "LinearAttention"): _state_elements,
    ("", "QLinearMatMul"): _product_elements,
    # The last input has one element for each region, so the input before it does not matter.
    ("", "RoiAlign"): lambda info, inputs: (
        len(inputs[2])
        * inputs[0].shape[1]
        * info.attribute("output_height", 1)
        * info.attribute("output_width", 1)
    ),
    # Counts and the results, for each row, even if it is empty.
    ("", "TfIdfVectorizer"): lambda info, inputs: (
        2
        * (len(inputs[0]) if inputs[0].ndim > 1 else 1)
        * (max(info.attribute("ngram_indexes"), default=0) + 1)
    ),
    ("ai.onnx.preview.training", "Adagrad"): _updated_elements(3),
    ("ai.onnx.preview.training", "Adam"): _updated_elements(4),
    ("ai.onnx.preview.training", "Momentum"): _updated_elements(3),
}
#: (domain, operator) → number of copies of its largest input that the reference holds meanwhile, if
#: that is more than two.
COPIES: Mapping[tuple[str, str], int] = {("", "SoftmaxCrossEntropyLoss"): 5, ("", "Unique"): 6}
USUAL_COPIES = 2
#: (domain, operator) → floating-point operations of one call into numpy that nothing can interrupt.
WORK: Mapping[tuple[str, str], Callable[[Sequence[Tensor]], float]] = {
    ("", "Det"): lambda inputs: (
        inputs[0].size * (inputs[0].shape[-1] ** 2 if inputs[0].ndim else 1) / 1.5
    ),
}
