"""Mixture of experts: each token goes through the few networks that its router prefers.

Tokens of one expert go through it together. Sums are computed in float32 (float64 for doubles).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortpkg.foundations.errors import quoted
from ortpkg.runtime.kernels.activations import gelu_tanh_block, relu_block, swish_block
from ortpkg.runtime.kernels.blas_threads import matmul
from ortpkg.runtime.kernels.op_kernel import OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.special_functions import sigmoid_block

_SEPARATE, _INTERLEAVED, _CONCATENATED = 0, 1, 2


def _identity_block(x: Tensor, out: Tensor) -> None:
    np.copyto(out, x)


_ACTIVATIONS: dict[str, Callable[[Tensor, Tensor], None]] = {
    "relu": relu_block,
    "gelu": gelu_tanh_block,
    "silu": swish_block(1.0),
    "identity": _identity_block,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureAttributes:
    """Attributes that MoE and QMoE share.

    Attributes:
        chosen: number of experts that each token goes through.
        activation: activation between an expert's layers; "swiglu" is gated: fc1 makes a gate and
            the values that pass it.
        is_normalized: True if the weights of the chosen experts are scaled to sum to 1.
        fusion: with swiglu: 0 if fc3 makes the values that pass the gate; 1, 2: fc1 makes both,
            interleaved or one behind the other.
        alpha, beta, limit: parameters of swiglu.
    """

    chosen: int
    activation: str
    is_normalized: bool
    fusion: int
    alpha: float
    beta: float
    limit: float

    @classmethod
    def of(cls, info: OpKernelInfo) -> MixtureAttributes:
        """Read a node's attributes. Raises ValueError if they contradict or are not supported."""
        attributes = cls(
            chosen=int(info.attribute("k", 1)),
            activation=str(info.attribute("activation_type", "relu")),
            is_normalized=bool(info.attribute("normalize_routing_weights", 0)),
            fusion=int(info.attribute("swiglu_fusion", 0)),
            alpha=float(info.attribute("activation_alpha", 1.0)),
            beta=float(info.attribute("activation_beta", 0.0)),
            limit=float(info.attribute("swiglu_limit", np.inf)),
        )
        if attributes.chosen < 1:
            raise ValueError(f"k is 1 or more, not {attributes.chosen}")
        if not attributes.is_gated and attributes.activation not in _ACTIVATIONS:
            raise ValueError(
                f"activation_type is one of {', '.join(_ACTIVATIONS)} and swiglu, not"
                f" {quoted(attributes.activation)}"
            )
        if attributes.fusion not in (_SEPARATE, _INTERLEAVED, _CONCATENATED):
            raise ValueError(f"swiglu_fusion is 0, 1 or 2, not {attributes.fusion}")
        if info.attribute("use_sparse_mixer", 0):
            raise ValueError("a sparse mixer (use_sparse_mixer=1) is not supported")
        return attributes

    @property
    def is_gated(self) -> bool:
        """True if one half of the first layer's output gates the other (SwiGLU)."""
        return self.activation == "swiglu"

    @property
    def is_fused(self) -> bool:
        """True if the first layer makes both the gate and the values that pass it."""
        return self.is_gated and self.fusion != _SEPARATE

    def activate(self, first: Tensor, third: Tensor | None) -> Tensor:
        """Return the second layer's input from the outputs of the first and the third.

        Both arrays may be overwritten.
        """
        if not self.is_gated:
            _ACTIVATIONS[self.activation](first, first)
            return first if third is None else np.multiply(first, third, out=first)
        if self.fusion == _INTERLEAVED:
            gate, passing = first[:, ::2], first[:, 1::2]
        elif self.fusion == _CONCATENATED:
            gate, passing = np.split(first, 2, axis=1)
        else:
            assert third is not None
            gate, passing = first, third
        if self.limit != np.inf:
            np.minimum(gate, self.limit, out=gate)
            np.clip(passing, -self.limit, self.limit, out=passing)
        weight = np.multiply(gate, self.alpha)
        sigmoid_block(weight, weight)
        weight *= gate
        return np.multiply(weight, passing + self.beta, out=weight)


@dataclass(frozen=True, slots=True)
class ExpertLayer:
    """One layer of all experts.

    Attributes:
        name: prefix of the operator's inputs: "fc1", "fc2", "fc3".
        shape: (experts, outputs, inputs).
        weights_of: returns the weights (outputs, inputs) of an expert, of any float type.
        bias: (experts, outputs) or None.
    """

    name: str
    shape: tuple[int, int, int]
    weights_of: Callable[[int], Tensor]
    bias: Tensor | None

    def apply(self, expert: int, x: Tensor) -> Tensor:
        """Send the rows of ``x`` through the layer of an expert; return a new array."""
        product: Tensor = matmul(x, self.weights_of(expert).astype(x.dtype, copy=False).T)
        if self.bias is not None:
            product += self.bias[expert].astype(x.dtype, copy=False)
        return product


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """Chosen experts of tokens, (tokens, k), and the weight of each."""

    experts: Tensor
    weights: Tensor


def best_experts(scores: Tensor, count: int) -> Tensor:
    """Return the ``count`` experts that score highest for each token, best first.

    Of equals, the last one comes first.

    Raises:
        ValueError: there are fewer experts.
    """
    if count > scores.shape[1]:
        raise ValueError(f"k={count} experts of {scores.shape[1]} cannot be chosen")
    order = np.argsort(scores, axis=1, kind="stable")
    return order[:, : -count - 1 : -1]


def softmax_rows(scores: Tensor) -> Tensor:
    """Return the softmax of each row, in a new array."""
    powers: Tensor = np.exp(scores - scores.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return powers


def check_router(name: str, scores: Tensor, tokens: int, experts: int) -> None:
    """Raise ValueError unless ``scores`` has a row per token and a column per expert."""
    if scores.shape != (tokens, experts):
        raise ValueError(
            f"{name} has the shape {(tokens, experts)}, (tokens, experts), not {scores.shape}"
        )


def check_layers(
    attributes: MixtureAttributes, layers: Sequence[ExpertLayer | None], hidden: int
) -> None:
    """Raise ValueError if layers do not fit ``hidden`` features, or each other; fc3 may be None."""
    first, second, third = layers
    assert first is not None
    assert second is not None
    experts, inner = first.shape[0], second.shape[2]
    if attributes.is_gated and attributes.is_fused == (third is not None):
        raise ValueError(
            "swiglu takes fc3_experts_weights where swiglu_fusion is 0, and only there"
        )
    expected = {
        "fc1": (experts, inner * (2 if attributes.is_fused else 1), hidden),
        "fc2": (experts, hidden, inner),
        "fc3": (experts, inner, hidden),
    }
    for layer in (first, second, third):
        if layer is None:
            continue
        if layer.shape != expected[layer.name]:
            raise ValueError(
                f"{layer.name}_experts_weights are for {expected[layer.name]}, not for"
                f" {layer.shape}"
            )
        if layer.bias is not None and layer.bias.shape != layer.shape[:2]:
            raise ValueError(
                f"{layer.name}_experts_bias has the shape {layer.shape[:2]}, not {layer.bias.shape}"
            )


def token_rows(x: Tensor) -> Tensor:
    """Return an input of 2 or 3 dimensions as (tokens, hidden size).

    Raises:
        ValueError: it has another number of dimensions.
    """
    if x.ndim not in (2, 3):
        raise ValueError(
            "input has the shape (tokens, hidden size) or (batch, length, hidden size), not"
            f" {x.shape}"
        )
    return (
        x.reshape(-1, x.shape[-1]) if x.size else x.reshape(int(np.prod(x.shape[:-1])), x.shape[-1])
    )


def mix(
    context: OpKernelContext,
    attributes: MixtureAttributes,
    x: Tensor,
    routes: Routes,
    layers: Sequence[ExpertLayer | None],
    dtype: np.dtype[Any],
) -> Tensor:
    """Return the weighted sum of the chosen experts' outputs for each row of ``x``, in ``dtype``.

    Experts whose weight is not above 0 are skipped, as in onnxruntime.
    """
    first, second, third = layers
    assert first is not None
    assert second is not None
    sizes = [layer.shape for layer in (first, second, third) if layer is not None]
    rows_nbytes = x.shape[0] * (2 * sum(shape[1] for shape in sizes) + x.shape[1]) * dtype.itemsize
    context.check_allocation(
        rows_nbytes + max(shape[1] * shape[2] for shape in sizes) * dtype.itemsize
    )
    total = np.zeros(x.shape, dtype)
    for expert in np.unique(routes.experts).tolist():
        context.check_cancelled()
        tokens, choices = np.nonzero((routes.experts == expert) & (routes.weights > 0))
        if not tokens.size:
            continue
        rows = x[tokens].astype(dtype, copy=False)
        between = attributes.activate(
            first.apply(expert, rows), None if third is None else third.apply(expert, rows)
        )
        result = second.apply(expert, between)
        result *= routes.weights[tokens, choices, None]
        total[tokens] += result
    return total
