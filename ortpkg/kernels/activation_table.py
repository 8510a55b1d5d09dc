"""The activations that fused nodes name by attribute, with their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ortpkg.errors import quoted
from ortpkg.kernels.activations import (
    Block,
    hard_sigmoid_block,
    hard_swish_block,
    leaky_relu_block,
    relu_block,
    swish_block,
    tanh_block,
)
from ortpkg.kernels.op_kernel import OpKernelInfo, Tensor
from ortpkg.kernels.special_functions import sigmoid_block


def _clip_block(low: float, high: float) -> Block:
    def block(x: Tensor, out: Tensor) -> None:
        x.clip(low, high, out=out)

    return block


#: Name → block function from its parameters (defaults are onnxruntime's, which has no HardSwish and QuickGelu here).
_ACTIVATIONS: Mapping[str, Callable[..., Block]] = {
    "Relu": lambda: relu_block,
    "Tanh": lambda: tanh_block,
    "Sigmoid": lambda: sigmoid_block,
    "LeakyRelu": lambda alpha=0.01: leaky_relu_block(alpha),
    "Clip": lambda low=float("-inf"), high=float("inf"): _clip_block(low, high),
    "HardSwish": lambda: hard_swish_block,
    "QuickGelu": lambda alpha=1.702: swish_block(alpha),
    "HardSigmoid": lambda alpha=0.2, beta=0.5: hard_sigmoid_block(alpha, beta),
}


def fused_activation(info: OpKernelInfo) -> Block | None:
    """The block function that the node's attributes name; None where they name none. ValueError for an unknown name."""
    name = str(info.attribute("activation", ""))
    if not name:
        return None
    if name not in _ACTIVATIONS:
        raise ValueError(f"there is no fused activation {quoted(name)}: {', '.join(_ACTIVATIONS)} exist")
    named = [info.attribute("activation_alpha"), info.attribute("activation_beta")]
    parameters = info.attribute("activation_params") or [value for value in named if value is not None]
    return _ACTIVATIONS[name](*parameters)
