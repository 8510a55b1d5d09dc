"""Activations that RNN, GRU and LSTM nodes name, with the lists of their alphas and betas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ortpkg.foundations.errors import quoted
from ortpkg.runtime.kernels.activations import (
    Block,
    elu_block,
    hard_sigmoid_block,
    leaky_relu_block,
    relu_block,
    scaled_tanh_block,
    softsign_block,
    tanh_block,
    thresholded_relu_block,
)
from ortpkg.runtime.kernels.op_kernel import OpKernelInfo, Tensor
from ortpkg.runtime.kernels.special_functions import sigmoid_block, softplus_block


def _affine_block(alpha: float, beta: float) -> Block:
    def block(x: Tensor, out: Tensor) -> None:
        np.multiply(x, alpha, out=out)
        np.add(out, beta, out=out)

    return block


@dataclass(frozen=True, slots=True)
class _Definition:
    """Block function by its parameters.

    ``alpha`` and ``beta`` are their defaults, None if it has no such parameter.
    """

    make: Callable[[float, float], Block]
    alpha: float | None = None
    beta: float | None = None


#: Definitions by lower-case name. Defaults are those of the operators of the same name.
_DEFINITIONS: Mapping[str, _Definition] = {
    "relu": _Definition(lambda _a, _b: relu_block),
    "tanh": _Definition(lambda _a, _b: tanh_block),
    "sigmoid": _Definition(lambda _a, _b: sigmoid_block),
    "softsign": _Definition(lambda _a, _b: softsign_block),
    "softplus": _Definition(lambda _a, _b: softplus_block),
    "affine": _Definition(_affine_block, 1.0, 0.0),
    "leakyrelu": _Definition(lambda alpha, _b: leaky_relu_block(alpha), 0.01),
    "thresholdedrelu": _Definition(lambda alpha, _b: thresholded_relu_block(alpha), 1.0),
    "scaledtanh": _Definition(scaled_tanh_block, 1.0, 1.0),
    "hardsigmoid": _Definition(hard_sigmoid_block, 0.2, 0.5),
    "elu": _Definition(lambda alpha, _b: elu_block(alpha), 1.0),
}


def recurrent_activations(
    info: OpKernelInfo, defaults: Sequence[str], directions: int
) -> list[list[Block]]:
    """Return one list of block functions per direction, each as long as ``defaults``.

    Alphas and betas are consumed in order, by the functions that have such a parameter.

    Raises:
        ValueError: a name is unknown, or a list has the wrong length.
    """
    names = [str(name) for name in info.attribute("activations") or (*defaults,) * directions]
    if len(names) != len(defaults) * directions:
        raise ValueError(
            f"{len(names)} activations are named; {len(defaults)} for each of {directions}"
            " directions fit"
        )
    alphas = iter(info.attribute("activation_alpha") or ())
    betas = iter(info.attribute("activation_beta") or ())
    blocks = [_block(name, alphas, betas) for name in names]
    return [blocks[start : start + len(defaults)] for start in range(0, len(blocks), len(defaults))]


def _block(name: str, alphas: Iterator[float], betas: Iterator[float]) -> Block:
    definition = _DEFINITIONS.get(name.lower())
    if definition is None:
        raise ValueError(
            f"there is no recurrent activation {quoted(name)}: {', '.join(_DEFINITIONS)} exist"
        )
    alpha = 0.0 if definition.alpha is None else next(alphas, definition.alpha)
    beta = 0.0 if definition.beta is None else next(betas, definition.beta)
    return definition.make(alpha, beta)
