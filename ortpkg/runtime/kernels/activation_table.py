"""Activations that fused nodes name by attribute, with their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ortpkg.foundations.errors import quoted
from ortpkg.runtime.kernels.activations import (
    Block,
    elu_block,
    hard_sigmoid_block,
    hard_swish_block,
    leaky_relu_block,
    parametric_softplus_block,
    relu_block,
    scaled_tanh_block,
    softsign_block,
    swish_block,
    tanh_block,
    thresholded_relu_block,
)
from ortpkg.runtime.kernels.op_kernel import OpKernelInfo, Tensor
from ortpkg.runtime.kernels.special_functions import sigmoid_block, softplus_block


def _clip_block(low: float, high: float) -> Block:
    def block(x: Tensor, out: Tensor) -> None:
        x.clip(low, high, out=out)

    return block


@dataclass(frozen=True, slots=True)
class _Definition:
    """An activation's block function by its parameters, named and ordered as activation_params."""

    make: Callable[..., Block]
    defaults: Mapping[str, float] = field(default_factory=dict)


#: Definitions by name, with the defaults of the operators of that name. onnxruntime's FusedGemm has
#: no Clip, HardSwish and QuickGelu, its FusedConv none of those from Softplus on.
_DEFINITIONS: Mapping[str, _Definition] = {
    "Relu": _Definition(lambda: relu_block),
    "Tanh": _Definition(lambda: tanh_block),
    "Sigmoid": _Definition(lambda: sigmoid_block),
    "LeakyRelu": _Definition(leaky_relu_block, {"alpha": 0.01}),
    "Clip": _Definition(_clip_block, {"alpha": float("-inf"), "beta": float("inf")}),
    "HardSwish": _Definition(lambda: hard_swish_block),
    "QuickGelu": _Definition(swish_block, {"alpha": 1.702}),
    "HardSigmoid": _Definition(hard_sigmoid_block, {"alpha": 0.2, "beta": 0.5}),
    "Softplus": _Definition(lambda: softplus_block),
    "Softsign": _Definition(lambda: softsign_block),
    "Elu": _Definition(elu_block, {"alpha": 1.0}),
    "Selu": _Definition(
        elu_block, {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}
    ),
    "ThresholdedRelu": _Definition(thresholded_relu_block, {"alpha": 1.0}),
    "ScaledTanh": _Definition(scaled_tanh_block, {"alpha": 1.0, "beta": 1.0}),
    "ParametricSoftplus": _Definition(parametric_softplus_block, {"alpha": 1.0, "beta": 1.0}),
}


def fused_activation(info: OpKernelInfo) -> Block | None:
    """Return the block function that the node's attributes name; None if they name none.

    Raises:
        ValueError: the name is unknown, or there are more parameters than the activation has.
    """
    name = str(info.attribute("activation", ""))
    if not name:
        return None
    definition = _DEFINITIONS.get(name)
    if definition is None:
        raise ValueError(
            f"there is no fused activation {quoted(name)}: {', '.join(_DEFINITIONS)} exist"
        )
    listed = tuple(info.attribute("activation_params") or ())
    if len(listed) > len(definition.defaults):
        raise ValueError(
            f"{name} has {len(definition.defaults)} parameters, but activation_params lists"
            f" {len(listed)}"
        )
    named = [
        info.attribute(f"activation_{key}", default) for key, default in definition.defaults.items()
    ]
    return definition.make(*listed, *named[len(listed) :])
