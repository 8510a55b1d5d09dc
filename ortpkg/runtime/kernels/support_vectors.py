"""SVMClassifier and SVMRegressor of ai.onnx.ml: machines trained by LIBSVM, and linear ones.

Source: the operator; onnxruntime where it says nothing (votes, labels and scores of two classes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ortpkg.foundations.errors import InvalidGraphError
from ortpkg.foundations.isolation.polling import poll_run
from ortpkg.graph.types import ElementType
from ortpkg.runtime.kernels.blas_threads import matmul
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.tree_kernels import POST_TRANSFORMS, post_transform_of

_TYPES = frozenset({ElementType.FLOAT, ElementType.DOUBLE, ElementType.INT64, ElementType.INT32})
_FLOAT32, _FLOAT64, _INT64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
_ROWS_AT_ONCE = 256
#: LIBSVM's smallest probability of a pair, most rounds of coupling, and error at which it stops.
_LEAST_PROBABILITY, _MOST_ROUNDS, _COUPLING_ERROR = 1e-7, 100, 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """Attributes of a node, checked against each other.

    Attributes:
        vectors: (support vectors, features); empty for a linear machine.
        starts: position of each class's first vector, and the number of all vectors.
        coefficients: (classes - 1, support vectors); (classes, features) for a linear machine.
        slopes, offsets: one per pair of classes, if scores are probabilities (Platt).
    """

    labels: tuple[Any, ...]
    kernel: str
    gamma: float
    offset: float
    degree: float
    vectors: Tensor
    starts: tuple[int, ...]
    coefficients: Tensor
    rho: Tensor
    slopes: Tensor
    offsets: Tensor
    transform: str

    @property
    def is_linear(self) -> bool:
        """Return True if it has a row of coefficients per class instead of support vectors."""
        return not self.vectors.size

    @property
    def class_count(self) -> int:
        return max(len(self.labels), 1)

    @property
    def features(self) -> int:
        return int((self.coefficients if self.is_linear else self.vectors).shape[1])


def _machine(info: OpKernelInfo) -> _Machine:
    def numbers(name: str) -> Tensor:
        return np.array(info.attribute(name, ()), _FLOAT64)

    labels = info.attribute("classlabels_ints") or info.attribute("classlabels_strings") or ()
    counts = tuple(info.attribute("vectors_per_class", ()))
    gamma, offset, degree = info.attribute("kernel_params", ()) or (0.0, 0.0, 0.0)
    vector_count, class_count = sum(counts), max(len(labels), 1)
    pairs = class_count * (class_count - 1) // 2
    rho, slopes, offsets = numbers("rho"), numbers("prob_a"), numbers("prob_b")
    if vector_count:
        vectors = numbers("support_vectors").reshape(vector_count, -1)
        coefficients = numbers("coefficients").reshape(class_count - 1, vector_count)
        if len(counts) != class_count or min(counts) < 0 or len(rho) < pairs:
            raise ValueError(
                f"{class_count} classes need as many counts of vectors and {pairs} numbers of rho,"
                f" but there are {len(counts)} and {len(rho)}"
            )
    else:
        vectors = np.empty((0, 0))
        coefficients = numbers("coefficients").reshape(class_count, -1)
        slopes = offsets = np.empty(0)
        if not len(rho):
            raise ValueError("a linear machine needs one number of rho, but there is none")
    if len(slopes) and min(len(slopes), len(offsets)) < pairs:
        raise ValueError(
            f"{pairs} pairs of classes need as many numbers of prob_a and prob_b, but there are"
            f" {len(slopes)} and {len(offsets)}"
        )
    return _Machine(
        labels=tuple(labels),
        kernel=_kernel_type(info) if vector_count else "LINEAR",
        gamma=gamma,
        offset=offset,
        degree=degree,
        vectors=vectors,
        starts=tuple(np.cumsum((0, *counts)).tolist()),
        coefficients=coefficients,
        rho=rho,
        slopes=slopes,
        offsets=offsets,
        transform=post_transform_of(info),
    )


def _kernel_type(info: OpKernelInfo) -> str:
    name = str(info.attribute("kernel_type", "LINEAR"))
    if name not in _KERNELS:
        raise InvalidGraphError(
            f"{info.node}: kernel_type is one of {', '.join(_KERNELS)}", node_name=info.node.name
        )
    return name


@kernel("SVMClassifier", since=(1,), domain="ai.onnx.ml", types={"T1": _TYPES})
def svm_classifier(info: OpKernelInfo) -> Compute:
    """Label of the class that wins most pairs, (N,), and scores or probabilities, (N, classes).

    Without probabilities there is one score for each pair of classes.
    """
    machine = _machine(info)
    has_texts = bool(info.attribute("classlabels_strings"))

    def compute(context: OpKernelContext, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = x[None] if x.ndim == 1 else x
        if rows.ndim != 2 or rows.shape[1] != machine.features:
            raise ValueError(
                f"rows of {machine.features} features are needed, but the shape is {x.shape}"
            )
        dtype = np.dtype(object) if has_texts else _INT64
        labels = context.output(0, (len(rows),), dtype)
        width = machine.class_count
        if not (machine.is_linear or len(machine.slopes)):
            width = max(width * (width - 1) // 2, 2)
        scores = context.output(1, (len(rows), width), _FLOAT32)
        pairs = machine.class_count**2
        context.check_allocation(
            min(len(rows), _ROWS_AT_ONCE) * 8 * (2 * len(machine.vectors) + x.shape[-1] + 4 * pairs)
        )
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            poll_run()
            block = slice(start, start + _ROWS_AT_ONCE)
            classes, block_scores = _classified(machine, rows[block].astype(_FLOAT64))
            labels[block] = _named(machine, classes)
            scores[block] = block_scores
        return labels, scores

    return compute


@kernel("SVMRegressor", since=(1,), domain="ai.onnx.ml", types={"T": _TYPES})
def svm_regressor(info: OpKernelInfo) -> Compute:
    """Number for each row; with one class, 1 for a row inside of it, -1 for one outside.

    There is one target, to which onnxruntime applies no transform.
    """
    machine = _regression(info)
    is_one_class = bool(info.attribute("one_class", 0))

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        rows = x[None] if x.ndim == 1 else x
        if rows.ndim != 2 or rows.shape[1] != machine.features:
            raise ValueError(
                f"rows of {machine.features} features are needed, but the shape is {x.shape}"
            )
        out = context.output(0, (len(rows), 1), _FLOAT32)
        own_nbytes = 8 * (2 * machine.vectors.size + 4 * len(machine.vectors) + rows.shape[1])
        context.check_allocation(min(len(rows), _ROWS_AT_ONCE) * own_nbytes)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            poll_run()
            block = rows[start : start + _ROWS_AT_ONCE].astype(_FLOAT64)
            similar = block if machine.is_linear else _similarities(machine, block)
            scores = matmul(similar, machine.coefficients[0]) + machine.rho[0]
            out[start : start + _ROWS_AT_ONCE, 0] = (
                np.where(scores > 0, 1, -1) if is_one_class else scores
            )
        return out

    return compute


def _regression(info: OpKernelInfo) -> _Machine:
    def numbers(name: str) -> Tensor:
        return np.array(info.attribute(name, ()), _FLOAT64)

    vector_count = int(info.attribute("n_supports", 0))
    gamma, offset, degree = info.attribute("kernel_params", ()) or (0.0, 0.0, 0.0)
    coefficients, rho, vectors = numbers("coefficients"), numbers("rho"), numbers("support_vectors")
    fits = not vectors.size or (vector_count > 0 and vectors.size % vector_count == 0)
    if not rho.size or not fits or (vector_count > 0 and coefficients.size != vector_count):
        raise ValueError(
            f"{coefficients.size} coefficients, {vectors.size} numbers of support vectors and"
            f" {rho.size} of rho do not fit {vector_count} support vectors"
        )
    return _Machine(
        labels=(),
        kernel=_kernel_type(info) if vector_count > 0 else "LINEAR",
        gamma=gamma,
        offset=offset,
        degree=degree,
        vectors=vectors.reshape(vector_count, -1) if vector_count > 0 else np.empty((0, 0)),
        starts=(),
        coefficients=coefficients.reshape(1, -1),
        rho=rho,
        slopes=np.empty(0),
        offsets=np.empty(0),
        transform=post_transform_of(info),
    )


def _named(machine: _Machine, classes: Tensor) -> Tensor:
    if not machine.labels:
        return classes
    names = np.array(machine.labels, object if isinstance(machine.labels[0], str) else _INT64)
    return np.asarray(names[classes])


def _classified(machine: _Machine, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return class numbers and transformed scores of rows."""
    if machine.is_linear:
        scores = matmul(rows, machine.coefficients.T) + machine.rho[0]
        classes = scores.argmax(axis=1)
        highest = scores.max(axis=1)
    else:
        scores, votes = _pair_scores(machine, rows)
        classes, highest = votes.argmax(axis=1), votes.max(axis=1)
        if len(machine.slopes):
            scores = coupled_probabilities(_pair_probabilities(machine, scores))
    if len(machine.rho) == 1:
        classes = _class_of_two(machine, classes, highest)
    return classes, _transformed(machine, scores)


def _class_of_two(machine: _Machine, classes: Tensor, highest: Tensor) -> Tensor:
    """Return class numbers if there is one rho, decided by the sign of the highest score."""
    if len(machine.labels) != 2:
        return np.asarray(highest > 0, np.intp) if not machine.labels else classes
    if not machine.is_linear:
        return classes
    threshold = 0.5 if machine.coefficients.min(initial=0) >= 0 else np.nextafter(0, 1)
    return np.where(highest >= threshold, 1, classes)


def _pair_scores(machine: _Machine, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the decision of each pair of classes, (rows, pairs), and votes, (rows, classes)."""
    similarities = _similarities(machine, rows)
    votes = np.zeros((len(rows), machine.class_count))
    scores: list[Tensor] = []
    for i in range(machine.class_count):
        first = slice(machine.starts[i], machine.starts[i + 1])
        for j in range(i + 1, machine.class_count):
            second = slice(machine.starts[j], machine.starts[j + 1])
            score = matmul(similarities[:, first], machine.coefficients[j - 1, first])
            score += matmul(similarities[:, second], machine.coefficients[i, second])
            score += machine.rho[len(scores)]
            votes[:, i] += score > 0
            votes[:, j] += score <= 0
            scores.append(score)
    return np.stack(scores, axis=1), votes


def _similarities(machine: _Machine, rows: Tensor) -> Tensor:
    """Return the kernel function of each row and support vector."""
    if machine.kernel == "RBF":
        squares = np.square(rows[:, None] - machine.vectors).sum(axis=2)
        return np.asarray(np.exp(-machine.gamma * squares))
    product = matmul(rows, machine.vectors.T)
    if machine.kernel == "LINEAR":
        return np.asarray(product)
    scaled = machine.gamma * product + machine.offset
    return np.asarray(np.tanh(scaled) if machine.kernel == "SIGMOID" else scaled**machine.degree)


def _pair_probabilities(machine: _Machine, scores: Tensor) -> Tensor:
    """Return the probability of class i, given that it is i or j: (rows, classes i, classes j).

    Source: Platt's sigmoid of the pair's score.
    """
    pairs = np.zeros((len(scores), machine.class_count, machine.class_count))
    first, second = np.triu_indices(machine.class_count, 1)
    count = len(first)
    logits = scores * machine.slopes[:count] + machine.offsets[:count]
    share = np.clip(1 / (1 + np.exp(logits)), _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
    pairs[:, first, second], pairs[:, second, first] = share, 1 - share
    return pairs


def coupled_probabilities(pairs: Tensor) -> Tensor:
    """Return the class probabilities (rows, classes) that best fit those of pairs (rows, c, c).

    Source: Wu, Lin and Weng, "Probability Estimates for Multi-class Classification by Pairwise
        Coupling" (2004), second method, algorithm 2; stops where LIBSVM stops.
    """
    classes = pairs.shape[1]
    q = -pairs * np.swapaxes(pairs, 1, 2)
    diagonal = np.square(pairs).sum(axis=1)
    q[:, range(classes), range(classes)] = diagonal
    shares = np.full(diagonal.shape, 1 / classes)
    for _ in range(max(_MOST_ROUNDS, classes)):
        poll_run()
        products = np.einsum("nij,nj->ni", q, shares)
        total = (shares * products).sum(axis=1)
        is_open = np.abs(products - total[:, None]).max(axis=1) >= _COUPLING_ERROR / classes
        if not is_open.any():
            break
        shares[is_open] = _coupling_round(
            q[is_open], shares[is_open], products[is_open], total[is_open]
        )
    return shares


def _coupling_round(q: Tensor, shares: Tensor, products: Tensor, total: Tensor) -> Tensor:
    """Return the probabilities after one round, in which each class in turn is optimized."""
    for t in range(q.shape[1]):
        diagonal = q[:, t, t]
        step = (total - products[:, t]) / diagonal
        scale = 1 + step
        total = (total + step * (step * diagonal + 2 * products[:, t])) / scale**2
        products = (products + step[:, None] * q[:, t]) / scale[:, None]
        shares[:, t] += step
        shares /= scale[:, None]
    return shares


def _transformed(machine: _Machine, scores: Tensor) -> Tensor:
    """Return scores by ``post_transform``.

    A single score belongs to the second of two classes. As in onnxruntime, the first class gets its
    negative, or 1 minus it for SOFTMAX transforms, which are then not applied.
    """
    if scores.shape[1] == 1 and machine.transform != "PROBIT":
        if machine.class_count == 1:
            return scores
        if machine.transform.startswith("SOFTMAX"):
            return np.concatenate([1 - scores, scores], axis=1)
        scores = np.concatenate([-scores, scores], axis=1)
    return POST_TRANSFORMS[machine.transform](scores)
