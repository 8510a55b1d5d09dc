"""Shapes of normalizations with several outputs, recurrent layers, quantization, training."""

from __future__ import annotations

from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.shapes.shape_context import ShapeContext, ShapeError, infers
from ortpkg.graph.types import ElementType

MICROSOFT = "com.microsoft"


@infers("BatchNormalization")
def batch_normalization(context: ShapeContext) -> None:
    """Infer the output, and statistics in the shapes of those that they replace."""
    context.make(0, context.shape(0))
    for slot in range(1, len(context.node.outputs)):
        statistic = (3, 4, 3, 4)[(slot - 1) % 4]
        shape = context.shape(statistic)
        input_shape = context.shape(0)
        if shape is None and input_shape is not None and len(input_shape) > 1:
            shape = (input_shape[1],)
        context.make(slot, shape)


@infers("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
def layer_normalization(context: ShapeContext) -> None:
    """Infer the output, and statistics of size 1 from ``axis`` on, of type ``stash_type``."""
    shape = context.shape(0)
    context.make(0, shape, context.element_type(0))
    stash = context.chosen_type("stash_type", ElementType.FLOAT)
    rows = None
    if shape is not None:
        axis = context.axis(context.attribute("axis", -1), len(shape))
        rows = (*shape[:axis], *(1,) * (len(shape) - axis))
    for slot in (1, 2):
        context.make(slot, rows, stash)


@infers("RNN", "GRU", "LSTM")
@infers("DynamicQuantizeLSTM", domain=MICROSOFT)
def recurrent(context: ShapeContext) -> None:
    """Infer Y (length, directions, batch, hidden), last states (directions, batch, hidden).

    Layout 1 puts the batch first.
    """
    shape = context.shape(0)
    directions = 2 if context.attribute("direction", "forward") == "bidirectional" else 1
    hidden: Size | None = context.optional("hidden_size", "INT")
    weights = context.shape(2)
    if hidden is None and weights is not None and len(weights) == 3:
        hidden = weights[1 if context.node.op_type == "DynamicQuantizeLSTM" else 2]
    state = context.new_size() if hidden is None else hidden
    if shape is None:
        length, batch = context.new_sizes(2)
    elif len(shape) != 3:
        raise ShapeError(f"{context.node}: an input of 3 dimensions is needed, not of {len(shape)}")
    else:
        length, batch = shape[0], shape[1]
    if context.attribute("layout", 0):
        length, batch = batch, length
        context.make(0, (batch, length, directions, state))
        last: tuple[Size, ...] = (batch, directions, state)
    else:
        context.make(0, (length, directions, batch, state))
        last = (directions, batch, state)
    context.make(1, last)
    context.make(2, last)


# --- quantization ---------------------------------------------------------------------------------


@infers("QuantizeLinear")
def quantize_linear(context: ShapeContext) -> None:
    """Infer the type from the zero point, else from ``output_dtype``, else uint8."""
    by_attribute = context.chosen_type("output_dtype", ElementType.UINT8)
    context.make(0, context.shape(0), context.element_type(2) if context.has(2) else by_attribute)


@infers("DequantizeLinear")
def dequantize_linear(context: ShapeContext) -> None:
    """Infer the type from ``output_dtype``, else from the scale."""
    context.make(0, context.shape(0), context.chosen_type("output_dtype", context.element_type(1)))


@infers("QuantizeLinear", domain=MICROSOFT)
def microsoft_quantize_linear(context: ShapeContext) -> None:
    context.make(
        0, context.shape(0), context.element_type(2) if context.has(2) else ElementType.UINT8
    )


@infers("DequantizeLinear", domain=MICROSOFT)
def microsoft_dequantize_linear(context: ShapeContext) -> None:
    context.make(0, context.shape(0), context.element_type(1))


@infers("DynamicQuantizeLinear")
def dynamic_quantize_linear(context: ShapeContext) -> None:
    context.make(0, context.shape(0), ElementType.UINT8)
    context.make(1, (), ElementType.FLOAT)
    context.make(2, (), ElementType.UINT8)


# --- losses and optimizers ------------------------------------------------------------------------


@infers("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(context: ShapeContext) -> None:
    """Infer one number, or with reduction "none" one for each target.

    The second output is the input's logarithms.
    """
    targets = context.shape(1)
    context.make(0, targets if context.attribute("reduction", "mean") == "none" else ())
    context.make(1, context.shape(0))


@infers("Adagrad", "Adam", "Momentum", domain="ai.onnx.preview.training")
def optimizer(context: ShapeContext) -> None:
    """Infer new values and states like the old, from (rate, step, values, gradients, states...)."""
    kinds = {"Adagrad": 3, "Momentum": 3, "Adam": 4}[context.node.op_type]
    count = (len(context.node.inputs) - 2) // kinds
    outputs = len(context.node.outputs)
    sources = [*range(2, 2 + count), *range(2 + 2 * count, 2 + kinds * count)]
    for slot, source in zip(range(outputs), sources, strict=False):
        context.make(slot, context.shape(source), context.element_type(source))


@infers("Gradient", domain="ai.onnx.preview.training")
def gradient(context: ShapeContext) -> None:
    """Infer derivatives like the first inputs, which ``xs`` names."""
    for slot in range(len(context.node.outputs)):
        context.make(slot, context.shape(slot), context.element_type(slot))
