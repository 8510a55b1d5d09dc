"""FlexAttention (ai.onnx.preview): sub-graphs may change its scores and probabilities."""

from __future__ import annotations

import math

import numpy as np

from ortpkg.graph.types import ElementType, numpy_dtype
from ortpkg.kernels.kernel_registry import kernel
from ortpkg.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor


@kernel("FlexAttention", since=(1,), domain="ai.onnx.preview")
def flex_attention(info: OpKernelInfo) -> Compute:
    scale_attribute = info.attribute("scale")
    precision = info.attribute("softmax_precision")
    modifiers = info.node.subgraphs

    def modified(context: OpKernelContext, attribute: str, x: Tensor) -> Tensor:
        if attribute not in modifiers:
            return x
        (result,) = context.run_subgraph(attribute, [x])
        if result.shape != x.shape:
            raise ValueError(f"{attribute} gives shape {result.shape}, but it must keep {x.shape}")
        return np.asarray(result.astype(x.dtype, copy=False))

    def compute(context: OpKernelContext, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        repeats = _repeats(query, key, value)
        scale = 1 / math.sqrt(query.shape[-1]) if scale_attribute is None else scale_attribute
        dtype = numpy_dtype(ElementType(precision)) if precision else _softmax_dtype(query.dtype)
        key, value = (np.repeat(x, repeats, axis=1) if repeats > 1 else x for x in (key, value))
        context.check_allocation(math.prod(query.shape[:3]) * key.shape[2] * dtype.itemsize)
        # Half of the scale on each side, rounded to the input's type, as the specification's
        # function has it.
        root = np.array(np.sqrt(np.float32(scale)), query.dtype)
        scores = np.matmul(query * root, np.swapaxes(key * root, -1, -2)).astype(dtype)
        scores = modified(context, "score_mod", scores)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
        probabilities = modified(context, "prob_mod", powers / powers.sum(axis=-1, keepdims=True))
        result = np.matmul(probabilities, value.astype(dtype))
        out = context.output(0, result.shape, value.dtype)
        np.copyto(out, result.astype(value.dtype))
        return out

    return compute


def _softmax_dtype(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    return dtype if dtype == np.float64 else np.dtype(np.float32)


def _repeats(query: Tensor, key: Tensor, value: Tensor) -> int:
    """How many query heads share a key head. ValueError where the shapes do not fit."""
    fits = (
        query.ndim == key.ndim == value.ndim == 4
        and key.shape[:3] == value.shape[:3]
        and query.shape[0] == key.shape[0]
        and query.shape[3] == key.shape[3]
        and key.shape[1] > 0
        and query.shape[1] % key.shape[1] == 0
    )
    if not fits:
        raise ValueError(
            f"query, key and value of shapes {query.shape}, {key.shape}, {value.shape} do not fit"
        )
    return int(query.shape[1] // key.shape[1])
