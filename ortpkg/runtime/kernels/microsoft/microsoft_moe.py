"""com.microsoft: MoE and QMoE, mixtures of experts with float, or 2, 4 or 8 bit weights.

Source: ONNX Runtime, docs/ContribOperators.md, and its CPU kernels where that says nothing: how
routers' scores become weights, and the layout of swiglu. Sparse mixers and floats of 4 or 8 bits
(``quant_type``) are refused.
"""

from __future__ import annotations

import math

import numpy as np

from ortpkg.foundations.errors import quoted
from ortpkg.runtime.kernels.element_types import FLOATS, compute_dtype
from ortpkg.runtime.kernels.expert_mixture import (
    ExpertLayer,
    MixtureAttributes,
    Routes,
    best_experts,
    check_layers,
    check_router,
    mix,
    softmax_rows,
    token_rows,
)
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.packed_bits import bits_apart

_DOMAIN = "com.microsoft"
_FLOAT32 = np.dtype(np.float32)
#: Most bytes of a layer's constant weights that are unpacked at initialization; larger ones are
#: unpacked for each expert when a token goes to it.
_MOST_UNPACKED_NBYTES = 1 << 30


@kernel("MoE", since=(1,), domain=_DOMAIN, types={"T": FLOATS})
def mixture_of_experts(info: OpKernelInfo) -> Compute:
    """Mixture whose weights are the softmax over all experts' scores, taken at the chosen ones."""
    attributes = MixtureAttributes.of(info)

    def compute(
        context: OpKernelContext,
        x: Tensor,
        scores: Tensor,
        weights1: Tensor,
        bias1: Tensor | None,
        weights2: Tensor,
        bias2: Tensor | None = None,
        weights3: Tensor | None = None,
        bias3: Tensor | None = None,
    ) -> Tensor:
        rows = token_rows(x)
        layers = [
            _float_layer("fc1", weights1, bias1),
            _float_layer("fc2", weights2, bias2),
            _float_layer("fc3", weights3, bias3),
        ]
        check_router("router_probs", scores, rows.shape[0], weights1.shape[0])
        check_layers(attributes, layers, rows.shape[1])
        dtype = compute_dtype(x.dtype)
        context.check_allocation(4 * scores.size * dtype.itemsize)
        shares = (
            softmax_rows(scores.astype(dtype, copy=False)) if scores.size else scores.astype(dtype)
        )
        experts = best_experts(shares, attributes.chosen)
        weights = np.take_along_axis(shares, experts, axis=1)
        if attributes.is_normalized:
            weights /= weights.sum(axis=1, keepdims=True)
        out = context.output(0, x.shape, x.dtype)
        total = mix(
            context, attributes, rows, Routes(experts=experts, weights=weights), layers, dtype
        )
        np.copyto(out, total.reshape(x.shape), casting="unsafe")
        return out

    return compute


def _float_layer(name: str, weights: Tensor | None, bias: Tensor | None) -> ExpertLayer | None:
    if weights is None:
        if bias is not None:
            raise ValueError(f"{name}_experts_bias needs {name}_experts_weights")
        return None
    if weights.ndim != 3:
        raise ValueError(
            f"{name}_experts_weights have the shape (experts, outputs, inputs), not {weights.shape}"
        )
    experts, outputs, inputs = weights.shape
    return ExpertLayer(name, (experts, outputs, inputs), weights.__getitem__, bias)


# --- quantized weights ----------------------------------------------------------------------------

#: Slots of QMoE: per layer its weights, scales, bias and zero points.
_LAYER_SLOTS = ((2, 3, 4, 11), (5, 6, 7, 12), (8, 9, 10, 13))
_ROUTER_WEIGHTS = 14
_FIRST_FLOAT_SCALE = 15


class _QuantizedLayer:
    """One of QMoE's layers: its attributes, and the dequantization of its weights."""

    def __init__(self, info: OpKernelInfo, number: int) -> None:
        self.name = f"fc{number}"
        self.bits = int(
            info.attribute(
                f"{self.name}_expert_weight_bits", info.attribute("expert_weight_bits", 4)
            )
        )
        self.block_size = max(int(info.attribute("block_size", 0)), 0)
        if self.bits not in (2, 4, 8):
            raise ValueError(f"experts' weights have 2, 4 or 8 bits, not {self.bits}")
        self._unpacked: Tensor | None = None
        self._unpacked = self._unpacked_constants(info, _LAYER_SLOTS[number - 1])

    def _unpacked_constants(
        self, info: OpKernelInfo, slots: tuple[int, int, int, int]
    ) -> Tensor | None:
        """Return the weights of all experts, if they are constant and not too large."""
        slot, scale_slot, _, zero_slot = slots
        weights, scales, zeros = (
            info.constant_input(constant_slot) for constant_slot in (slot, scale_slot, zero_slot)
        )
        has_zeros = zero_slot < len(info.node.inputs) and bool(info.node.inputs[zero_slot])
        if weights is None or scales is None or (has_zeros and zeros is None):
            return None
        if weights.size * (8 // self.bits) * _FLOAT32.itemsize > _MOST_UNPACKED_NBYTES:
            return None
        layer = self.with_inputs(weights, scales, None, zeros)
        return info.prepacked(
            self.name,
            lambda: np.stack([layer.weights_of(expert) for expert in range(layer.shape[0])]),
        )

    def with_inputs(
        self, weights: Tensor, scales: Tensor | None, bias: Tensor | None, zeros: Tensor | None
    ) -> ExpertLayer:
        """Return the layer of a run. Raises ValueError if the inputs do not fit each other."""
        if weights.ndim != 3:
            raise ValueError(
                f"{self.name}_experts_weights have the shape (experts, outputs, inputs x bits / 8),"
                f" not {weights.shape}"
            )
        experts, outputs, packed = weights.shape
        inputs = packed * 8 // self.bits
        if self._unpacked is not None:
            return ExpertLayer(
                self.name, (experts, outputs, inputs), self._unpacked.__getitem__, bias
            )
        self._check_scales((experts, outputs, inputs), scales, zeros)
        assert scales is not None

        def weights_of(expert: int) -> Tensor:
            codes = bits_apart(weights[expert], self.bits).astype(np.float32)
            blocks = scales[expert].astype(np.float32).reshape(outputs, -1)
            parted = codes.reshape(outputs, blocks.shape[1], -1)
            parted -= self._zero_points(zeros, expert, *blocks.shape)
            parted *= blocks[:, :, None]
            return codes

        return ExpertLayer(self.name, (experts, outputs, inputs), weights_of, bias)

    def _check_scales(
        self, shape: tuple[int, int, int], scales: Tensor | None, zeros: Tensor | None
    ) -> None:
        experts, outputs, inputs = shape
        if self.block_size and inputs % self.block_size:
            raise ValueError(
                f"{self.name}: {inputs} inputs are no multiple of block_size={self.block_size}"
            )
        expected = (
            (experts, outputs, inputs // self.block_size) if self.block_size else (experts, outputs)
        )
        if scales is None or scales.shape != expected:
            raise ValueError(
                f"{self.name}_scales have the shape {expected}, not"
                f" {None if scales is None else scales.shape}"
            )
        if zeros is not None:
            packed = (*expected[:-1], -(-expected[-1] * self.bits // 8))
            if zeros.shape != packed:
                raise ValueError(
                    f"{self.name}_zero_points have the shape {packed}, not {zeros.shape}"
                )

    def _zero_points(self, zeros: Tensor | None, expert: int, outputs: int, blocks: int) -> Tensor:
        """Return zero points (outputs, blocks, 1) in float32; half the range if there are none."""
        if zeros is None:
            return np.full((1, 1, 1), 1 << (self.bits - 1), np.float32)
        codes = bits_apart(zeros[expert], self.bits).astype(np.float32)
        return (codes[:, :blocks] if self.block_size else codes[:outputs]).reshape(
            outputs, blocks, 1
        )


@kernel("QMoE", since=(1,), domain=_DOMAIN, types={"T": FLOATS})
def quantized_mixture_of_experts(info: OpKernelInfo) -> Compute:
    """Mixture whose weights are the softmax over the chosen experts, or from ``router_weights``."""
    attributes = MixtureAttributes.of(info)
    _check_quantization(info)
    quantized = [_QuantizedLayer(info, number) for number in (1, 2, 3)]

    def compute(
        context: OpKernelContext, x: Tensor, scores: Tensor, *rest: Tensor | None
    ) -> Tensor:
        inputs: list[Tensor | None] = [x, scores, *rest]
        inputs += [None] * (_FIRST_FLOAT_SCALE - len(inputs))
        layers: list[ExpertLayer | None] = []
        for layer, slots in zip(quantized, _LAYER_SLOTS, strict=True):
            weights, scales, bias, zeros = (inputs[slot] for slot in slots)
            layers.append(
                None if weights is None else layer.with_inputs(weights, scales, bias, zeros)
            )
        rows = token_rows(x)
        assert layers[0] is not None
        experts_count = layers[0].shape[0]
        check_router("router_probs", scores, rows.shape[0], experts_count)
        check_layers(attributes, layers, rows.shape[1])
        dtype = compute_dtype(x.dtype)
        context.check_allocation(4 * scores.size * dtype.itemsize)
        experts = best_experts(scores.astype(dtype, copy=False), attributes.chosen)
        router_weights = inputs[_ROUTER_WEIGHTS]
        if router_weights is not None:
            check_router("router_weights", router_weights, rows.shape[0], experts_count)
        routes = Routes(
            experts=experts,
            weights=_weights(scores, router_weights, experts, attributes).astype(dtype, copy=False),
        )
        out = context.output(0, x.shape, x.dtype)
        total = mix(context, attributes, rows, routes, layers, dtype)
        np.copyto(out, total.reshape(x.shape), casting="unsafe")
        return out

    return compute


def _weights(
    scores: Tensor, router_weights: Tensor | None, experts: Tensor, attributes: MixtureAttributes
) -> Tensor:
    """Return the weight of each chosen expert, (tokens, k)."""
    dtype = compute_dtype(scores.dtype)
    if router_weights is None:
        chosen = np.take_along_axis(scores, experts, axis=1).astype(dtype, copy=False)
        return softmax_rows(chosen) if chosen.size else chosen
    weights = np.take_along_axis(router_weights, experts, axis=1).astype(dtype)
    if attributes.is_normalized:
        total = weights.sum(axis=1, keepdims=True)
        np.divide(weights, total, out=weights, where=total != 0)
        weights[np.broadcast_to(total == 0, weights.shape)] = 0
    return weights


def _check_quantization(info: OpKernelInfo) -> None:
    """Raise ValueError for weights that are no integers, or laid out for one provider alone."""
    kind = str(info.attribute("quant_type", "int"))
    if kind != "int":
        raise ValueError(
            f"weights quantized to floats (quant_type={quoted(kind)}) are not supported"
        )
    if int(info.attribute("weights_prepacked", -1)) == 1:
        raise ValueError(
            "weights laid out for one execution provider (weights_prepacked=1) are not supported"
        )
    if any(info.node.inputs[_FIRST_FLOAT_SCALE:]):
        raise ValueError("global scales and scales of activations are not supported")
    block_size = int(info.attribute("block_size", 0))
    if block_size > 0 and (block_size < 16 or not math.log2(block_size).is_integer()):
        raise ValueError(f"block_size is a power of two of 16 or more, not {block_size}")
