"""Scaler, Normalizer and linear models of ai.onnx.ml; outputs are float32 for any input type.

Source: the operators. Arithmetic is float32, as in onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ortpkg.foundations.errors import InvalidGraphError, quoted
from ortpkg.foundations.isolation.polling import poll_run
from ortpkg.graph.types import ElementType
from ortpkg.runtime.kernels.blas_threads import matmul
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.tree_kernels import POST_TRANSFORMS, post_transform_of

_DOMAIN = "ai.onnx.ml"
_TYPES = frozenset({ElementType.FLOAT, ElementType.DOUBLE, ElementType.INT64, ElementType.INT32})
_FLOAT32 = np.dtype(np.float32)


@kernel("Scaler", since=(1,), domain=_DOMAIN, types={"T": _TYPES})
def scaler(info: OpKernelInfo) -> Compute:
    """(x - offset) * scale; offset and scale are one number, or one for each feature."""
    offset = np.array(info.attribute("offset", ()) or (0.0,), _FLOAT32)
    scale = np.array(info.attribute("scale", ()) or (1.0,), _FLOAT32)

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        features = x.shape[-1] if x.ndim else 1
        if any(values.size not in (1, features) for values in (offset, scale)):
            raise ValueError(
                f"{offset.size} offsets and {scale.size} scales do not fit {features} features"
            )
        out = context.output(0, x.shape, _FLOAT32)
        np.copyto(out, x, casting="unsafe")
        np.subtract(out, offset if offset.size > 1 else offset[0], out=out)
        np.multiply(out, scale if scale.size > 1 else scale[0], out=out)
        return out

    return compute


def _l2(x: Tensor) -> Tensor:
    return np.asarray(np.sqrt(np.square(x).sum(axis=-1, keepdims=True)))


_NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "MAX": lambda x: np.asarray(x.max(axis=-1, keepdims=True, initial=-np.inf)),
    "L1": lambda x: np.asarray(np.abs(x).sum(axis=-1, keepdims=True)),
    "L2": _l2,
}


@kernel("Normalizer", since=(1,), domain=_DOMAIN, types={"T": _TYPES})
def normalizer(info: OpKernelInfo) -> Compute:
    """Rows divided by their norm; a row with norm 0 stays as it is."""
    name = str(info.attribute("norm", "MAX"))
    if name not in _NORMS:
        raise InvalidGraphError(
            f"{info.node}: no norm {quoted(name)}: {', '.join(_NORMS)} exist",
            node_name=info.node.name,
        )

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        if x.ndim not in (1, 2):
            raise ValueError(f"rows of features are needed, but the shape is {x.shape}")
        out = context.output(0, x.shape, _FLOAT32)
        context.check_allocation(3 * out.nbytes)
        np.copyto(out, x, casting="unsafe")
        norms = _NORMS[name](out)
        np.divide(out, np.where(norms == 0, _FLOAT32.type(1), norms), out=out)
        return out

    return compute


@kernel("LinearRegressor", since=(1,), domain=_DOMAIN, types={"T": _TYPES})
def linear_regressor(info: OpKernelInfo) -> Compute:
    """Product of rows (N, features) and coefficients, plus intercepts: (N, targets)."""
    targets = int(info.attribute("targets", 1))
    coefficients = np.array(info.attribute("coefficients", ()), _FLOAT32)
    intercepts = np.array(info.attribute("intercepts", ()), _FLOAT32)
    if targets < 1 or coefficients.size % targets or intercepts.size not in (0, targets):
        raise ValueError(
            f"{coefficients.size} coefficients and {intercepts.size} intercepts do not fit"
            f" {targets} targets"
        )
    weights = coefficients.reshape(targets, -1).T
    name = post_transform_of(info)

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        rows = x[None] if x.ndim == 1 else x
        if rows.ndim != 2 or rows.shape[1] != len(weights):
            raise ValueError(
                f"rows of {len(weights)} features are needed, but the shape is {x.shape}"
            )
        out = context.output(0, (len(rows), targets), _FLOAT32)
        context.check_allocation(rows.size * _FLOAT32.itemsize + 3 * out.nbytes)
        poll_run()
        matmul(rows.astype(_FLOAT32, copy=False), weights, out=out)
        if intercepts.size:
            np.add(out, intercepts, out=out)
        if targets > 1 or name == "PROBIT":  # onnxruntime ignores the others for a single target
            np.copyto(out, POST_TRANSFORMS[name](out), casting="unsafe")
        return out

    return compute


@kernel("LinearClassifier", since=(1,), domain=_DOMAIN, types={"T1": _TYPES})
def linear_classifier(info: OpKernelInfo) -> Compute:
    """Class with the largest score, and the scores; one row of coefficients decides between two."""
    coefficients = np.array(info.attribute("coefficients", ()), _FLOAT32)
    intercepts = np.array(info.attribute("intercepts", ()), _FLOAT32)
    texts = info.attribute("classlabels_strings") or ()
    labels = np.array(texts or info.attribute("classlabels_ints") or (), object if texts else None)
    name = post_transform_of(info)

    def compute(context: OpKernelContext, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = x[None] if x.ndim == 1 else x
        count = coefficients.size // max(rows.shape[-1], 1) if rows.ndim == 2 else 0
        _check_classes(x.shape, count, coefficients, intercepts, labels)
        weights = coefficients.reshape(count, -1).T
        width = max(count, len(labels))
        classes = context.output(0, (len(rows),), np.dtype(object) if texts else np.dtype(np.int64))
        scores = context.output(1, (len(rows), width), _FLOAT32)
        context.check_allocation(rows.size * _FLOAT32.itemsize + 4 * scores.nbytes)
        poll_run()
        sums = matmul(rows.astype(_FLOAT32, copy=False), weights)
        if intercepts.size:
            np.add(sums, intercepts, out=sums)
        best = sums.argmax(axis=1) if count > 1 else (sums[:, 0] > 0).astype(np.intp)
        np.copyto(classes, labels[best] if labels.size else best, casting="unsafe")
        np.copyto(scores, _class_scores(sums, width, name), casting="unsafe")
        return classes, scores

    return compute


def _check_classes(
    shape: tuple[int, ...], count: int, coefficients: Tensor, intercepts: Tensor, labels: Tensor
) -> None:
    """Raise ValueError if rows of that shape, coefficients, intercepts and labels do not fit."""
    features = shape[-1] if shape else 0
    is_whole = count > 0 and count * features == coefficients.size
    if not is_whole or intercepts.size not in (0, count):
        raise ValueError(
            f"{coefficients.size} coefficients and {intercepts.size} intercepts do not fit rows of"
            f" shape {shape}"
        )
    if labels.size not in (0, 2 if count == 1 else count):
        raise ValueError(f"{labels.size} labels do not fit {count} rows of coefficients")


def _class_scores(sums: Tensor, width: int, name: str) -> Tensor:
    """Return the scores of ``width`` classes from as many sums, or from one for two classes.

    From one sum, onnxruntime applies no transform but PROBIT, and LOGISTIC for two classes.
    """
    if sums.shape[1] > 1:
        return POST_TRANSFORMS[name](sums)
    if width == 2:
        opposite = -sums if name == "LOGISTIC" else 1 - sums
        sums = np.concatenate([opposite, sums], axis=1)
    is_transformed = name == "PROBIT" or (name == "LOGISTIC" and width == 2)
    return POST_TRANSFORMS[name](sums) if is_transformed else sums
