"""One trained network in several numerics: float32, float16 weights, float16, quantized.

Every graph has the float32 input ``image`` and the float32 output ``logits``; only what lies
between them differs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
import onnx

from scripts.digits.graph_builder import INPUT, OUTPUT, GraphBuilder
from scripts.digits.network import Array, ConvolutionLayer, Network

_CONVOLUTION = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1]}
_POOLING = {"kernel_shape": [2, 2], "strides": [2, 2]}


class Numerics(ABC):
    """How a graph stores its parameters, and what it puts between its layers."""

    @abstractmethod
    def parameters(
        self, graph: GraphBuilder, layer: str, weight: Array, bias: Array, source: str
    ) -> list[str]:
        """Adds weight and bias of ``layer``, which reads the activation ``source``.

        Gives the names of both.
        """

    def convolution(
        self, graph: GraphBuilder, layer: ConvolutionLayer, inputs: str, source: str
    ) -> str:
        """Adds Conv with the BatchNormalization folded into it.

        ``inputs`` carries the activation ``source``.
        """
        parameters = self.parameters(graph, layer.name, *layer.folded(), source)
        return graph.add_node(
            "Conv", [inputs, *parameters], f"{layer.name}_normalized", **_CONVOLUTION
        )

    def enter(self, graph: GraphBuilder) -> str:
        """What the first layer reads; by default the graph's input."""
        return self.carry(graph, INPUT, INPUT)

    def carry(self, graph: GraphBuilder, value: str, source: str) -> str:  # noqa: ARG002
        """What the next node reads for ``value``, whose range is that of ``source``."""
        return value

    def linear(self, graph: GraphBuilder, inputs: str, parameters: list[str]) -> None:
        """Adds the last layer, which gives the graph's output."""
        graph.add_node("Gemm", [inputs, *parameters], OUTPUT, transB=1)


class SinglePrecision(Numerics):
    """float32 throughout.

    BatchNormalization stays a node of its own, as a trainer exports it: engines fold it.
    """

    def convolution(
        self, graph: GraphBuilder, layer: ConvolutionLayer, inputs: str, source: str
    ) -> str:
        del source
        normalization = layer.normalization
        weight = graph.add_initializer(f"{layer.name}.weight", layer.weight.astype(np.float32))
        parameters = [
            graph.add_initializer(f"{layer.name}.normalization.{name}", array.astype(np.float32))
            for name, array in (
                ("scale", normalization.scale),
                ("bias", normalization.bias),
                ("mean", normalization.mean),
                ("variance", normalization.variance),
            )
        ]
        output = graph.add_node("Conv", [inputs, weight], f"{layer.name}_output", **_CONVOLUTION)
        return graph.add_node(
            "BatchNormalization",
            [output, *parameters],
            f"{layer.name}_normalized",
            epsilon=normalization.epsilon,
        )

    def parameters(
        self, graph: GraphBuilder, layer: str, weight: Array, bias: Array, source: str
    ) -> list[str]:
        del source
        return [
            graph.add_initializer(f"{layer}.weight", weight.astype(np.float32)),
            graph.add_initializer(f"{layer}.bias", bias.astype(np.float32)),
        ]


class FoldedSinglePrecision(SinglePrecision):
    """float32 with folded BatchNormalization: what quantized variants are calibrated on."""

    convolution = Numerics.convolution


class HalfPrecisionWeights(Numerics):
    """float16 parameters that Cast nodes turn back into float32: half the bytes on disk.

    This is what OpenVINO calls a model compressed to FP16: its reader takes Cast over a constant
    for decompression, and the GPU plug-in, which computes in float16 by default, uses the stored
    values as they are.
    """

    def parameters(
        self, graph: GraphBuilder, layer: str, weight: Array, bias: Array, source: str
    ) -> list[str]:
        del source
        names = []
        for name, array in ((f"{layer}.weight", weight), (f"{layer}.bias", bias)):
            compressed = graph.add_initializer(f"{name}_float16", array.astype(np.float16))
            names.append(graph.add_node("Cast", [compressed], name, to=onnx.TensorProto.FLOAT))
        return names


class HalfPrecision(Numerics):
    """float16 throughout, for tensor cores; Cast at both borders keeps the float32 interface."""

    def enter(self, graph: GraphBuilder) -> str:
        return graph.add_node("Cast", [INPUT], f"{INPUT}_float16", to=onnx.TensorProto.FLOAT16)

    def parameters(
        self, graph: GraphBuilder, layer: str, weight: Array, bias: Array, source: str
    ) -> list[str]:
        del source
        return [
            graph.add_initializer(f"{layer}.weight", weight.astype(np.float16)),
            graph.add_initializer(f"{layer}.bias", bias.astype(np.float16)),
        ]

    def linear(self, graph: GraphBuilder, inputs: str, parameters: list[str]) -> None:
        logits = graph.add_node("Gemm", [inputs, *parameters], f"{OUTPUT}_float16", transB=1)
        graph.add_node("Cast", [logits], OUTPUT, to=onnx.TensorProto.FLOAT)


class Quantized(Numerics):
    """Q/DQ pairs around every operator: uint8 activations, int8 weights, int32 biases.

    Activations: one scale per tensor, from the greatest value seen in calibration. All are at least
    0 (grey levels, or behind Relu), so the zero point is 0 and the scheme is symmetric and affine
    at once. Weights: symmetric, one
    scale per output channel. Biases: scale = activation's scale x weight's scale, as ONNX's
        QLinearConv has it.

    Args:
        greatest: activation → its greatest value in calibration.
        weight_limit: the weights use -limit to +limit. 127 is int8's full symmetric range; 63
            leaves one bit free, without which the 16-bit intermediate sums of x86 CPUs that lack
            VNNI instructions saturate.
    """

    def __init__(self, greatest: Mapping[str, float], *, weight_limit: int) -> None:
        self._scales = {name: np.float32(value / 255) for name, value in greatest.items()}
        self._weight_limit = weight_limit

    def parameters(
        self, graph: GraphBuilder, layer: str, weight: Array, bias: Array, source: str
    ) -> list[str]:
        per_channel = np.abs(weight.reshape(len(weight), -1)).max(axis=1)
        scale = (per_channel / self._weight_limit).astype(np.float32)
        column = scale.astype(np.float64).reshape(-1, *[1] * (weight.ndim - 1))
        quantized = np.clip(
            np.rint(weight / column), -self._weight_limit, self._weight_limit
        ).astype(np.int8)
        bias_scale = scale * self._scales[source]
        quantized_bias = np.rint(bias / bias_scale.astype(np.float64)).astype(np.int32)
        zero = graph.add_initializer(f"{layer}.weight_zero_point", np.zeros(len(weight), np.int8))
        zero_bias = graph.add_initializer(
            f"{layer}.bias_zero_point", np.zeros(len(weight), np.int32)
        )
        stored = [
            (f"{layer}.weight", quantized, scale, zero),
            (f"{layer}.bias", quantized_bias, bias_scale, zero_bias),
        ]
        return [
            graph.add_node(
                "DequantizeLinear",
                [
                    graph.add_initializer(f"{name}_quantized", array),
                    graph.add_initializer(f"{name}_scale", scales),
                    zero_point,
                ],
                name,
                axis=0,
            )
            for name, array, scales, zero_point in stored
        ]

    def carry(self, graph: GraphBuilder, value: str, source: str) -> str:
        scale = graph.add_initializer(f"{source}_scale", np.asarray(self._scales[source]))
        zero = graph.add_initializer(f"{source}_zero_point", np.asarray(0, np.uint8))
        quantized = graph.add_node("QuantizeLinear", [value, scale, zero], f"{value}_quantized")
        return graph.add_node("DequantizeLinear", [quantized, scale, zero], f"{value}_dequantized")


def write_model(
    network: Network,
    numerics: Numerics,
    *,
    batch: int | str,
    doc_string: str,
    metadata: Mapping[str, str],
) -> onnx.ModelProto:
    """The whole classifier in one of the numerics.

    See :meth:`GraphBuilder.build` for the other arguments.
    """
    graph = GraphBuilder()
    inputs, source = numerics.enter(graph), INPUT
    for layer in network.convolutions:
        normalized = numerics.convolution(graph, layer, inputs, source)
        source = graph.add_node("Relu", [normalized], activation_name(layer))
        inputs = numerics.carry(graph, source, source)
        if layer.is_pooled:
            pooled = graph.add_node("MaxPool", [inputs], f"{layer.name}_pooled", **_POOLING)
            inputs = numerics.carry(graph, pooled, source)
    features = graph.add_node("Flatten", [inputs], "features", axis=1)
    inputs = numerics.carry(graph, features, source)
    parameters = numerics.parameters(
        graph, "linear", network.linear_weight, network.linear_bias, source
    )
    numerics.linear(graph, inputs, parameters)
    return graph.build(batch=batch, doc_string=doc_string, metadata=metadata)


def activation_name(layer: ConvolutionLayer) -> str:
    """The name of the value behind the layer's Relu."""
    return f"{layer.name}_activated"
