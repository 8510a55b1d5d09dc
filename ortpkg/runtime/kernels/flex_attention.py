"""FlexAttention (ai.onnx.preview): sub-graphs may change its scores and probabilities."""

from __future__ import annotations

import math

import numpy as np

from ortpkg.graph.types import ElementType, numpy_dtype
from ortpkg.runtime.kernels.element_types import compute_dtype, widened
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.matrix_product import product_in_blocks
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor


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
        context.check_allocation(_nbytes(query, key, value, repeats, dtype))
        key, value = (np.repeat(x, repeats, axis=1) if repeats > 1 else x for x in (key, value))
        # Half of the scale on each side, rounded to the input's type, as the specification's
        # function has it.
        root = np.array(np.sqrt(np.float32(scale)), query.dtype)
        scores = _product(query * root, np.swapaxes(key * root, -1, -2))
        scores = modified(context, "score_mod", scores.astype(dtype, copy=False))
        powers = scores - scores.max(axis=-1, keepdims=True, initial=-np.inf)
        np.exp(powers, out=powers)
        del scores
        powers /= powers.sum(axis=-1, keepdims=True)
        probabilities = modified(context, "prob_mod", powers)
        result = _product(probabilities, value.astype(dtype, copy=False))
        out = context.output(0, result.shape, value.dtype)
        np.copyto(out, result, casting="unsafe")
        return out

    return compute


def _nbytes(
    query: Tensor, key: Tensor, value: Tensor, repeats: int, dtype: np.dtype[np.generic]
) -> int:
    """Return the most bytes of the steps.

    These are repeated and scaled factors, scores in two arrays, and a result.
    """
    count = math.prod(query.shape[:3])
    itemsize = max(dtype.itemsize, 4)
    factors = 3 * (query.size + (key.size + value.size) * repeats) * itemsize
    return factors + (3 * int(key.shape[2]) + int(value.shape[3])) * count * itemsize


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b`` in their type, with narrow floats summed in float32; may end the run."""
    wide = compute_dtype(a.dtype)
    out = np.empty((*a.shape[:-1], b.shape[-1]), wide)
    product_in_blocks(widened(a), widened(b), out)
    return out.astype(a.dtype, copy=False)


def _softmax_dtype(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    return dtype if dtype == np.float64 else np.dtype(np.float32)


def _repeats(query: Tensor, key: Tensor, value: Tensor) -> int:
    """Return the number of query heads that share a key head.

    Raises:
        ValueError: the shapes do not fit each other.
    """
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
