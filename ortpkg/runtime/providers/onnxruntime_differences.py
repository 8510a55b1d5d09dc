"""Operators that onnxruntime computes otherwise than ONNX defines them, or refuses in a run.

Observed in the CPU provider of onnxruntime 1.31.1, which also runs nodes that other providers
leave. ``tests/providers/test_onnxruntime_differences.py`` has a model for each row that the library
itself gets wrong. Nothing here loads onnxruntime.

One difference is no row: Attention in float16 rounds elsewhere, by two units in the last place.
"""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import ElementType
from ortpkg.runtime.providers.library_differences import (
    Difference,
    NodeCall,
    by_operator,
    domain_of,
)

_ATTENTION_KEY, _ATTENTION_MASK, _ATTENTION_PAST_KEY, _ATTENTION_LENGTHS = 1, 3, 4, 6
_PRODUCTS_OUTPUT, _MASKED_PRODUCTS = 3, 2
_CONV_WEIGHT_ZERO_POINT, _MATMUL_ZERO_POINT = 3, 2
_TRAINING_MODE = 2
_UNPOOLED_SHAPE = 2
_RESIZE_SIZES = 3
_SLICE_ENDS, _SLICE_STEPS = 2, 4
#: Ends that onnxruntime takes for "no end" in either direction; as floats.
_ENDLESS = (float(2**31 - 1), float(2**63 - 1))


def onnxruntime_faults(graph: Graph) -> Mapping[int, str]:
    """Return why onnxruntime gets nodes, or nodes inside them, wrong, by node index."""
    faults = {node.index: _fault(graph, node) for node in graph.nodes}
    return {index: fault for index, fault in faults.items() if fault}


def _fault(graph: Graph, node: Node) -> str:
    call = NodeCall(graph, node)
    for row in _BY_OPERATOR.get((domain_of(node), node.op_type), ()):
        if row.applies(call):
            return row.fault(node)
    inside = (
        _fault(subgraph, inner) for subgraph in node.subgraphs.values() for inner in subgraph.nodes
    )
    return next(filter(None, inside), "")


def _shows_what_it_hides(call: NodeCall) -> bool:
    """Return True if products are an output after some of them were hidden."""
    shows = call.has_output(_PRODUCTS_OUTPUT)
    if not shows or call.node.attribute("qk_matmul_output_mode", 0) != _MASKED_PRODUCTS:
        return False
    return bool(
        call.node.attribute("is_causal", 0)
        or call.input_type(_ATTENTION_MASK) is ElementType.BOOL
        or call.has_input(_ATTENTION_LENGTHS)
    )


def _masks_fewer_keys(call: NodeCall) -> bool:
    """Return True if the mask is known to be shorter than the keys, past ones included."""
    mask, keys = call.shape(_ATTENTION_MASK), call.shape(_ATTENTION_KEY)
    if not mask or keys is None or len(keys) < 2:
        return False
    sizes = [mask[-1], keys[-2]]
    if call.has_input(_ATTENTION_PAST_KEY):
        past = call.shape(_ATTENTION_PAST_KEY)
        sizes.append(past[-2] if past is not None and len(past) >= 2 else None)
    masked, *lengths = [size if isinstance(size, int) else None for size in sizes]
    counted = [length for length in lengths if length is not None]
    return masked is not None and len(counted) == len(lengths) and masked < sum(counted)


def _has_many_zero_points(slot: int, call: NodeCall) -> bool:
    return any(size != 1 for size in call.shape(slot) or ())


def _reduces_no_booleans(call: NodeCall) -> bool:
    shape = call.shape(0)
    return call.input_type(0) is ElementType.BOOL and shape is not None and 0 in shape


def _aligns_by_scales(call: NodeCall) -> bool:
    """Return True if the size of the result is rounded, and its corners are aligned."""
    mode = call.node.attribute("coordinate_transformation_mode", "half_pixel")
    policy = call.node.attribute("keep_aspect_ratio_policy", "stretch")
    return mode == "align_corners" and (not call.has_input(_RESIZE_SIZES) or policy != "stretch")


def _is_training(call: NodeCall) -> bool:
    return call.has_input(_TRAINING_MODE) and call.numbers(_TRAINING_MODE) != (0.0,)


def _ends_a_backward_slice_at_the_top(call: NodeCall) -> bool:
    steps, ends = call.numbers(_SLICE_STEPS), call.numbers(_SLICE_ENDS)
    if steps is None or ends is None:
        return False
    return any(step < 0 and end in _ENDLESS for step, end in zip(steps, ends, strict=False))


def _splits_into_nothing(call: NodeCall) -> bool:
    """Return True if the last of ``num_outputs`` parts is known to be empty."""
    parts, shape = call.node.attribute("num_outputs", 0), call.shape(0)
    axis = call.node.attribute("axis", 0)
    if not parts or not shape or not -len(shape) <= axis < len(shape):
        return False
    size = shape[axis]
    return isinstance(size, int) and (parts - 1) * -(-size // parts) >= size


#: The whole table, in the order in which documents show it.
DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        name="hidden products of Attention",
        operators=("Attention",),
        behaviour=(
            "products that a mask hides are the smallest float where they are an output, not -inf"
        ),
        applies=_shows_what_it_hides,
    ),
    Difference(
        name="short masks of Attention",
        operators=("Attention",),
        behaviour="it refuses to run with a mask of fewer keys than there are",
        applies=_masks_fewer_keys,
    ),
    Difference(
        name="zero points of ConvInteger",
        operators=("ConvInteger",),
        behaviour="it refuses to run with a zero point for each channel",
        applies=lambda call: _has_many_zero_points(_CONV_WEIGHT_ZERO_POINT, call),
    ),
    Difference(
        name="DFT and STFT",
        operators=("DFT", "STFT"),
        behaviour="it sums products in float32, and keeps four digits of a hundred terms",
    ),
    Difference(
        name="drawn zeros of Dropout",
        operators=("Dropout",),
        behaviour="it draws others of the same seed",
        applies=_is_training,
    ),
    Difference(
        name="zero points of MatMulInteger",
        operators=("MatMulInteger",),
        behaviour="it refuses to run with a zero point for each row",
        applies=lambda call: _has_many_zero_points(_MATMUL_ZERO_POINT, call),
    ),
    Difference(
        name="stated sizes of MaxUnpool",
        operators=("MaxUnpool",),
        behaviour="it counts indices by the size that it would choose itself",
        applies=lambda call: call.has_input(_UNPOOLED_SHAPE),
    ),
    Difference(
        name="reductions of no booleans",
        operators=("ReduceMax", "ReduceMin"),
        behaviour="it refuses the maximum and the minimum of no booleans",
        applies=_reduces_no_booleans,
    ),
    Difference(
        name="aligned corners of Resize",
        operators=("Resize",),
        behaviour="it aligns the corners of the rounded size where scales decide",
        applies=_aligns_by_scales,
    ),
    Difference(
        name="backward slices from the end",
        operators=("Slice",),
        behaviour="it takes the largest int32 or int64 as an end for none where a step is negative",
        applies=_ends_a_backward_slice_at_the_top,
    ),
    Difference(
        name="empty parts of Split",
        operators=("Split",),
        behaviour="it refuses to run where the last of num_outputs parts is empty",
        applies=_splits_into_nothing,
    ),
)
_BY_OPERATOR = by_operator(DIFFERENCES)
