"""Differences between OpenVINO and ONNX: the table that decides which nodes OpenVINO may claim.

They were observed in the CPU plug-in of OpenVINO 2026.4.1. A row names operators, describes the
difference, and has a predicate for the nodes that it affects;
``tests/providers/test_openvino_differences.py`` has a model for each row that OpenVINO computes
wrongly. Operators that it refuses to convert need no row, since compiling shows that. Nothing here
loads OpenVINO.

Differences that are no rows, since they would leave too little to claim (docs/operators.md lists
them for users):

- NaN: Celu, Exp, HardSigmoid, Relu, Max, Min, Clip and ReduceLogSumExp return a number or infinity
  for it; ReduceMax, ReduceMin, ArgMax and ArgMin skip it, or what stands before it; onnxruntime
  skips it, too, unless it comes first;
- Softmax and LogSoftmax of a row with NaN or inf may be 0 and -inf beside it, where all is NaN;
- Gelu of inf is NaN; Exp and Gelu are infinite in the last factor of 2 before the largest float;
- Celu, Elu, Gelu and Selu are off by up to 5e-7, which are all digits of results that small, as is
  Swish below -87; HardSigmoid of float16 is up to 1.3e-4 where 0 is due;
- subnormal numbers are 0, also as divisors; zeros lose or get their sign;
- QuantizeLinear with an odd zero point is one step off exactly between two steps;
- Cast of floats to 8 bits saturates, which ONNX leaves open; our engines keep the last 8 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.needed_operators import MICROSOFT_DOMAIN
from ortpkg.graph.types import ElementType, TensorType
from ortpkg.runtime.providers.index_guards import is_in_range
from ortpkg.runtime.providers.library_differences import (
    Difference,
    NodeCall,
    by_operator,
    domain_of,
)
from ortpkg.runtime.providers.small_integers import (
    INDEX_SLOTS,
    INTEGERS,
    LIMIT_SLOTS,
    MOVES,
    OuterIntegers,
    SmallIntegers,
    element_type_of,
)


@dataclass(frozen=True, slots=True)
class _Call(NodeCall):
    """A node in its graph, with what is known of the graph's integers.

    Attributes:
        integers: small integers and indices of the graph.
        is_inside: True if the graph lies inside a node that would be claimed as a whole.
    """

    integers: SmallIntegers
    is_inside: bool = False

    def type_of(self, value: str) -> ElementType | None:
        return element_type_of(self.graph, value) if value else None


def openvino_faults(graph: Graph) -> Mapping[int, str]:
    """Return why OpenVINO computes nodes, or nodes of their subgraphs, wrongly, by node index."""
    integers = SmallIntegers(graph, None if graph.parent is None else OuterIntegers(graph.parent))
    faults = {node.index: _fault(graph, node, integers) for node in graph.nodes}
    return {index: fault for index, fault in faults.items() if fault}


def _fault(graph: Graph, node: Node, integers: SmallIntegers, *, is_inside: bool = False) -> str:
    domain, call = domain_of(node), _Call(graph, node, integers, is_inside)
    for row in (*_BY_OPERATOR.get((domain, node.op_type), ()), *_OF_ALL):
        if row.domain == domain and row.applies(call):
            return row.fault(node)
    inner_faults = (
        _fault(inner, inner_node, integers.inside(node, name), is_inside=True)
        for name, inner in node.subgraphs.items()
        for inner_node in inner.nodes
    )
    return next(filter(None, inner_faults), "")


# --- integers, and floats of 64 bits --------------------------------------------------------------

#: Operators that compute integers correctly, or that have rows of their own.
_TAKES_INTEGERS = frozenset(
    {
        "Constant", "ConstantOfShape", "ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear",
        "If", "Loop", "MatMulInteger", "MaxPool", "QLinearConv", "QLinearMatMul", "QuantizeLinear",
        "Scan", "Shape", "Size",
    }
)  # fmt: skip
_COMPARISONS = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
_SHORT = frozenset({ElementType.INT8, ElementType.UINT8, ElementType.INT16, ElementType.UINT16})
_LONG = frozenset({ElementType.INT64, ElementType.UINT64})
_CAST = _SHORT | {ElementType.INT32}
_EXACT_CASTS = _CAST | {ElementType.FLOAT, ElementType.FLOAT16}


def _is_of_64_bits(call: _Call) -> bool:
    """Return True if 64-bit integers that may be large enter or leave the node."""
    if call.node.op_type in _TAKES_INTEGERS:
        return False
    # Its Cast to uint32 is wrong in the upper half of the range, too.
    narrowed = _LONG | {ElementType.UINT32} if call.node.op_type == "Cast" else _LONG
    wide = [
        *(value for value in _data_of(call) if call.type_of(value) in _LONG),
        *(value for value in call.node.outputs if call.type_of(value) in narrowed),
    ]
    return not all(_is_safe(call, value) for value in wide)


def _computes_integers(call: _Call) -> bool:
    if call.node.op_type in _TAKES_INTEGERS:
        return False
    input_types = {
        element_type
        for value in _data_of(call)
        if (element_type := call.type_of(value)) in INTEGERS and not _is_safe(call, value)
    }
    if not input_types:
        return False
    if call.node.op_type in MOVES:
        # Constants of uint32 end at 2**31 - 1 there, as those of 64 bits do.
        is_unsigned = ElementType.UINT32 in input_types and call.node.op_type != "Identity"
        return is_unsigned or bool(call.node.attribute("reduction", "none") != "none")
    if call.node.op_type in _COMPARISONS:
        return not input_types <= _SHORT
    if call.node.op_type == "Cast":
        is_exact = call.type_of(call.node.outputs[0]) in _EXACT_CASTS
        return not is_exact or not input_types <= _CAST
    return True


def _is_of_double(call: _Call) -> bool:
    values = (*call.node.inputs, *call.node.outputs)
    return any(call.type_of(value) is ElementType.DOUBLE for value in values)


def _data_of(call: _Call) -> Iterable[str]:
    """Yield the inputs that hold data; sizes, axes and indices are left out."""
    indices = INDEX_SLOTS.get(call.node.op_type, frozenset())
    limits = LIMIT_SLOTS.get(call.node.op_type, frozenset())
    for slot, value in enumerate(call.node.inputs):
        if value and slot not in indices and not (slot in limits and call.is_constant(slot)):
            yield value


def _is_safe(call: _Call, value: str) -> bool:
    return call.integers.is_small(value) or call.integers.is_index(value)


# --- operators of ONNX ----------------------------------------------------------------------------

_INFINITIES = (float("inf"), float("-inf"))
_WINDOWS = ("left_window_size", "right_window_size")
_PAST_KEY, _PAST_MASK = 4, 3
_SEQUENCE_LENGTHS, _PEEPHOLES = 4, 7
_RESIZE_SCALES, _RESIZE_SIZES, _TRILU_K = 2, 3, 1
_SLICE_AXES, _SLICE_STEPS, _LONG_STEP = 3, 4, 1 << 31
_RANK_OF_WRONG_REDUCTIONS = 3
_RANGE_STEP = 2
_HALF = 0.5
#: Most nodes that the search for a value's least element goes back.
_MOST_DEPTH = 8
_NEVER_NEGATIVE = frozenset(
    {"Abs", "Exp", "ReduceL1", "ReduceL2", "ReduceSumSquare", "Relu", "Sigmoid", "Softmax", "Sqrt"}
)
#: Operators with no result below the least element of their first input, if that is 0 or more.
_KEEPS_LEAST = frozenset(
    {
        "Expand", "GlobalAveragePool", "Identity", "ReduceMax", "ReduceMean", "ReduceMin",
        "Reshape", "Squeeze", "Transpose", "Unsqueeze",
    }
)  # fmt: skip


def _has_a_zero(*names: str) -> Callable[[_Call], bool]:
    """Return a predicate: one of the attributes is stated as 0."""
    return lambda call: any(call.node.attribute(name) == 0 for name in names)


def _has_attribute(name: str, *usual: object) -> Callable[[_Call], bool]:
    """Return a predicate: the attribute has a value other than the usual ones."""
    return lambda call: call.node.attribute(name, usual[0]) not in usual


def _reduces_nothing(call: _Call) -> bool:
    shape = call.shape(0)
    return shape is not None and 0 in shape


def _is_compared_with_infinity(call: _Call) -> bool:
    (output,) = call.node.outputs
    for user in call.graph.consumer_nodes(output):
        if user.op_type == "IsInf":
            return True
        other = [value for value in user.inputs if value != output]
        constant = call.graph.constant(other[0]) if user.op_type == "Equal" and other else None
        if constant is not None and constant.numpy().ravel()[:1] in _INFINITIES:
            return True
    return False


def _last_window_is_padding(call: _Call) -> bool:
    """Return True if ceil_mode may add a window that begins after the last element."""
    if not call.node.attribute("ceil_mode", 0):
        return False
    kernel = call.node.attribute("kernel_shape", ())
    rank = len(kernel)
    strides = call.node.attribute("strides") or (1,) * rank
    ends = (call.node.attribute("pads") or (0,) * 2 * rank)[rank:]
    is_auto = call.node.attribute("auto_pad", "NOTSET") != "NOTSET"
    return is_auto or any(
        stride + end > size for size, stride, end in zip(kernel, strides, ends, strict=False)
    )


def _is_beside_one(call: _Call) -> bool:
    """Return True if every use adds a number of 1 or more, beside which the lost digits vanish."""
    (output,) = call.node.outputs
    users = call.graph.consumer_nodes(output)
    return (
        bool(users)
        and not call.graph.is_output(output)
        and all(
            user.op_type == "Add" and any(_least(call.graph, value) >= 1 for value in user.inputs)
            for user in users
        )
    )


def _is_root_of_negative(call: _Call) -> bool:
    """Return True if an exponent is 0.5 or -0.5 and the base may be -inf or -0."""
    exponents = call.numbers(1) or ()
    return any(abs(number) == _HALF for number in exponents) and (
        _least(call.graph, call.node.inputs[0]) <= 0
    )


def _least(graph: Graph, value: str, depth: int = 0) -> float:
    """Return a lower bound of the elements of ``value``, from the nodes that compute it.

    -inf if these tell nothing. A bound above 0 excludes -0 as well.
    """
    constant = graph.constant(value)
    if constant is not None:
        numbers = constant.numpy()
        return float(numbers.min()) if numbers.size and numbers.dtype.kind == "f" else -math.inf
    maker = graph.producer_of(value)
    if maker is None or maker.domain or depth > _MOST_DEPTH:
        return -math.inf
    inputs = [name for name in maker.inputs if name]
    if maker.op_type in _NEVER_NEGATIVE or (maker.op_type == "Mul" and len(set(inputs)) == 1):
        return 0
    if maker.op_type == "Pow":
        constant = graph.constant(inputs[1])
        exponents = None if constant is None else constant.numpy()
        return 0 if exponents is not None and (exponents == 2).all() else -math.inf
    if maker.op_type in _KEEPS_LEAST:
        return _least(graph, inputs[0], depth + 1)
    if maker.op_type in ("Add", "Max"):
        ends = [_least(graph, name, depth + 1) for name in inputs]
        return max(ends) if maker.op_type == "Max" else sum(ends)
    return -math.inf


def _reaches(call: _Call, kernel: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return the extent of a window, and the padding before and behind, for each axis."""
    rank = len(kernel)
    dilations = call.node.attribute("dilations") or (1,) * rank
    pads = call.node.attribute("pads") or (0,) * 2 * rank
    reaches = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=False)]
    return list(zip(reaches, pads[:rank], pads[rank:], strict=False))


def _pools_padding(call: _Call) -> bool:
    """Return True if a window may lie in the padding alone."""
    kernel = call.node.attribute("kernel_shape", ())
    return any(max(before, after) >= reach for reach, before, after in _reaches(call, kernel))


def _cuts_all(call: _Call) -> bool:
    """Return True if the padding of a transposed convolution may leave nothing."""
    weight = call.shape(1)
    if weight is None or not all(isinstance(size, int) for size in weight[2:]):
        return True
    kernel = [size for size in weight[2:] if isinstance(size, int)]
    return any(before + after >= reach for reach, before, after in _reaches(call, kernel))


def _rounds_scales(call: _Call) -> bool:
    """Return True if the quotient of sizes, taken for the scale, may choose another pixel."""
    if call.node.attribute("mode", "nearest") != "nearest":
        return False
    if call.has_input(_RESIZE_SIZES):
        axes = _resized_axes(call)
        return axes is None or not all(_keeps_pixels(call, *sizes) for sizes in axes)
    rounding = call.node.attribute("nearest_mode", "round_prefer_floor")
    if not call.has_input(_RESIZE_SCALES):
        return False
    scales = call.numbers(_RESIZE_SCALES)
    if rounding == "round_prefer_floor" or scales == ():
        return False
    return scales is None or not all(
        scale > 0 and (scale.is_integer() or (1 / scale).is_integer()) for scale in scales
    )


def _resized_axes(call: _Call) -> list[tuple[object, object]] | None:
    """Return the size of each axis before and after; None if their number is unknown."""
    before, declared = call.shape(0), call.graph.type_of(call.node.outputs[0])
    after = declared.shape if isinstance(declared, TensorType) else None
    axes, sizes = call.node.attribute("axes"), call.numbers(_RESIZE_SIZES)
    if before is not None and sizes is not None and len(sizes) == len(axes or before):
        axes = axes or range(len(before))
        return [(before[axis], int(size)) for axis, size in zip(axes, sizes, strict=True)]
    if before is None or after is None or len(before) != len(after):
        return None
    return list(zip(before, after, strict=True))


def _keeps_pixels(call: _Call, before: object, after: object) -> bool:
    """Return True if a quotient of sizes that is rounded to float32 chooses no other pixel."""
    if before == after:
        return True
    mode = call.node.attribute("coordinate_transformation_mode", "half_pixel")
    if mode == "align_corners" or not (isinstance(before, int) and isinstance(after, int)):
        return False
    if not (before > 0 and after > 0):
        return True
    share, rest = divmod(before, after)
    return after % before == 0 or (rest == 0 and share & (share - 1) == 0)


def _has_far_diagonals(call: _Call) -> bool:
    """Return True if k may be 2**31 or more in magnitude."""
    if not call.has_input(_TRILU_K):
        return False
    k = call.numbers(_TRILU_K)
    return k is None or any(abs(number) >= _LONG_STEP for number in k)


def _aligns_by_scales(call: _Call) -> bool:
    mode = call.node.attribute("coordinate_transformation_mode", "half_pixel")
    return mode == "align_corners" and not call.has_input(_RESIZE_SIZES)


def _attends_causally_to_past(call: _Call) -> bool:
    return bool(
        call.node.attribute("is_causal", 0)
        and call.has_input(_PAST_KEY)
        and call.has_input(_PAST_MASK)
    )


#: Operators that may stand between a reduction and a constant that OpenVINO joins with it.
_JOINED_WITH_REDUCTIONS = frozenset(
    {
        "Abs", "Add", "BatchNormalization", "Cast", "Ceil", "Clip", "DequantizeLinear", "Div",
        "Dropout", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity",
        "LeakyRelu", "Log", "Max", "Mean", "Min", "Mish", "Mul", "Neg", "PRelu", "Pow",
        "QuantizeLinear", "Reciprocal", "Relu", "Reshape", "Round", "Selu", "Sigmoid", "Sign",
        "Softplus", "Softsign", "Sqrt", "Squeeze", "Sub", "Sum", "Swish", "Tanh", "Unsqueeze",
    }
)  # fmt: skip
_MOVES_SIZES = frozenset({"Reshape", "Squeeze", "Unsqueeze"})


def _reduced_axes(call: _Call) -> Iterable[int]:
    """Return the axes of a reduction of three, as far as they are known."""
    axes = call.node.attribute("axes") or call.numbers(1) or ()
    return {int(axis) % _RANK_OF_WRONG_REDUCTIONS for axis in axes}


def _meets_a_constant(call: _Call) -> bool:
    """Return True if only elementwise nodes lie between a reduction and a constant with an axis."""
    shape = call.shape(0)
    if shape is not None and len(shape) != _RANK_OF_WRONG_REDUCTIONS:
        return False
    if 1 in _reduced_axes(call) or (call.node.op_type == "Einsum" and call.has_input(1)):
        return False
    value = call.node.outputs[0]
    while not call.graph.is_output(value) and call.graph.use_count(value) == 1:
        (use,) = call.graph.consumers_of(value)
        node = call.graph.node(use.node_index)
        if use.slot < 0 or node.op_type not in _JOINED_WITH_REDUCTIONS:
            return False
        user = _Call(call.graph, node, call.integers)
        others = [slot for slot, name in enumerate(node.inputs) if name != value]
        if not all(map(user.is_constant, others)):
            return False
        if node.op_type not in _MOVES_SIZES and any(map(user.is_row_of_constants, others)):
            return True
        value = node.outputs[0]
    return False


def _takes_no_axes(call: _Call) -> bool:
    return bool(call.node.attribute("noop_with_empty_axes", 0))


def _ends_in_two_ranks(call: _Call) -> bool:
    outputs = zip(*(graph.outputs for graph in call.node.subgraphs.values()), strict=False)
    graphs = tuple(call.node.subgraphs.values())
    for values in outputs:
        types = [graph.type_of(value) for graph, value in zip(graphs, values, strict=True)]
        shapes = [value_type.shape for value_type in types if isinstance(value_type, TensorType)]
        if len({len(shape) for shape in shapes if shape is not None}) > 1:
            return True
    return False


def _makes_large_integers(call: _Call) -> bool:
    (output,) = call.node.outputs
    is_wide = call.type_of(output) in _LONG | {ElementType.UINT32}
    return is_wide and not _is_safe(call, output)


def _differs_beside_the_axis(call: _Call) -> bool:
    """Return True if indices and data may differ in size on an axis other than ``axis``."""
    data, indices = call.shape(0), call.shape(1)
    if data is None or indices is None:
        return True
    axis = call.node.attribute("axis", 0) % max(len(data), 1)
    pairs = [
        pair for dimension, pair in enumerate(zip(data, indices, strict=False)) if dimension != axis
    ]
    return any(data_size != index_size for data_size, index_size in pairs)


def _may_leave_the_tensor(call: _Call) -> bool:
    """Return True if an index may be out of range; only constants can prove that none is."""
    indices, data = call.numbers(1), call.shape(0)
    if indices is None or data is None:
        return True
    # Against the smallest size, since a row has an index for each axis.
    sizes = [size if isinstance(size, int) else 0 for size in data]
    smallest = min(sizes, default=0)
    return not all(-smallest <= index < smallest for index in indices)


def _makes_indices_of_floats(call: _Call) -> bool:
    (output,) = call.node.outputs
    source = call.type_of(call.node.inputs[0])
    is_made = source not in INTEGERS and source is not ElementType.BOOL
    return is_made and call.integers.is_index(output) and not call.integers.is_small(output)


def _gathers_unseen(call: _Call) -> bool:
    """Return True if indices inside a subgraph, which are not checked, may be out of range."""
    return call.is_inside and not is_in_range(call.graph, call.node)


def _may_stand_still(call: _Call) -> bool:
    steps = call.numbers(_RANGE_STEP)
    return steps is None or 0 in steps


def _expands_to_anything(call: _Call) -> bool:
    """Return True if the shape comes from outside, and not every shape fits the data."""
    shape = call.shape(0)
    fits_all = shape is not None and all(size == 1 for size in shape)
    return not (fits_all or call.is_constant(1) or call.integers.is_small(call.node.inputs[1]))


def _may_be_longer(call: _Call) -> bool:
    """Return True if the condition may have more elements than the axis."""
    shape, condition = call.shape(0), call.shape(1)
    axis = call.node.attribute("axis")
    if not shape or not condition or axis is None or not -len(shape) <= axis < len(shape):
        return True
    size, length = shape[axis], condition[0]
    return not isinstance(size, int) or not isinstance(length, int) or length > size


def _may_have_several_bounds(call: _Call) -> bool:
    shapes = [call.shape(slot) for slot in (1, 2) if call.has_input(slot)]
    return any(shape is None or any(size != 1 for size in shape) for shape in shapes)


def _may_lack_parameters(call: _Call) -> bool:
    """Return True if parameters may differ in length."""
    shapes = [call.shape(slot) for slot in range(1, 5)]
    return None in shapes or any(shape != shapes[0] for shape in shapes)


def _has_long_steps(call: _Call) -> bool:
    """Return True if a step may be 2**31 or more in magnitude."""
    if not call.has_input(_SLICE_STEPS):
        return False
    steps = call.numbers(_SLICE_STEPS)
    return steps is None or any(abs(step) >= _LONG_STEP for step in steps)


def _splits_unevenly(call: _Call) -> bool:
    parts = call.node.attribute("num_outputs", 0)
    if not parts:
        return False
    shape = call.shape(0)
    size = None if not shape else shape[call.node.attribute("axis", 0)]
    return not isinstance(size, int) or size % parts != 0


def _may_have_negative_lengths(call: _Call) -> bool:
    if not call.has_input(1):
        return False
    lengths = call.numbers(1)
    return lengths is None or any(length < 0 for length in lengths)


def _is_float(call: _Call) -> bool:
    return call.type_of(call.node.inputs[0]) not in INTEGERS


_GEMM_C = 2
_RECURRENT = ("GRU", "LSTM", "RNN")
_ONNX_ROWS = (
    Difference(
        name="window of Attention",
        operators=("Attention",),
        behaviour="it attends beyond left_window_size and right_window_size",
        applies=lambda call: any(call.node.attribute(name, -1) != -1 for name in _WINDOWS),
    ),
    Difference(
        name="causal Attention with a past and a mask",
        operators=("Attention",),
        behaviour="it leaves out the past where it hides what comes later",
        applies=_attends_causally_to_past,
    ),
    Difference(
        name="padding of AveragePool",
        operators=("AveragePool",),
        behaviour="it counts padding that ceil_mode adds",
        applies=lambda call: bool(
            call.node.attribute("ceil_mode", 0) and call.node.attribute("count_include_pad", 0)
        ),
    ),
    Difference(
        name="BitShift", operators=("BitShift",), behaviour="it saturates, and loses the sign's bit"
    ),
    Difference(
        name="large integers of ConstantOfShape",
        operators=("ConstantOfShape",),
        behaviour="what is beyond 32 bits ends at 2147483647",
        applies=_makes_large_integers,
    ),
    Difference(
        name="DFT", operators=("DFT",), behaviour="it keeps an axis too many, or four digits alone"
    ),
    Difference(
        name="DynamicQuantizeLinear",
        operators=("DynamicQuantizeLinear",),
        behaviour="what lies between two steps goes to the other",
    ),
    Difference(
        name="sizes of GatherElements",
        operators=("GatherElements",),
        behaviour="it takes no indices that are smaller than the data beside the axis",
        applies=_differs_beside_the_axis,
    ),
    Difference(
        name="indices that lie outside",
        operators=("GatherND", "ScatterElements", "ScatterND"),
        behaviour="it reads and writes memory beside the tensor where an index lies outside",
        applies=_may_leave_the_tensor,
    ),
    Difference(
        name="indices made of floats",
        operators=("Cast",),
        behaviour="NaN, infinity and what is beyond 32 bits become the index 0",
        applies=_makes_indices_of_floats,
    ),
    Difference(
        name="indices inside of a sub-graph",
        operators=("Gather", "GatherElements"),
        behaviour="it has zeros for an index that is out of range",
        applies=_gathers_unseen,
    ),
    Difference(
        name="condition of Compress",
        operators=("Compress",),
        behaviour="it has zeros for what a condition takes behind the axis",
        applies=_may_be_longer,
    ),
    Difference(
        name="axes of Slice",
        operators=("Slice",),
        behaviour="a computed axis that is not there ends the process",
        applies=lambda call: not call.is_constant(_SLICE_AXES),
    ),
    Difference(
        name="bounds of Clip",
        operators=("Clip",),
        behaviour="it broadcasts bounds that are more than one number",
        applies=_may_have_several_bounds,
    ),
    Difference(
        name="parameters of BatchNormalization",
        operators=("BatchNormalization",),
        behaviour="it broadcasts parameters that do not have a number for each channel",
        applies=_may_lack_parameters,
    ),
    Difference(
        name="step of Range",
        operators=("Range",),
        behaviour="a step of 0 makes an empty range",
        applies=_may_stand_still,
    ),
    Difference(
        name="computed shape of Expand",
        operators=("Expand",),
        behaviour="it leaves a tensor as it is that cannot take the shape",
        applies=_expands_to_anything,
    ),
    Difference(
        name="C of Gemm",
        operators=("Gemm",),
        behaviour="it multiplies C by a beta of 0, which leaves NaN of what is not finite",
        applies=lambda call: call.node.attribute("beta", 1.0) == 0 and call.has_input(_GEMM_C),
    ),
    Difference(
        name="Erf",
        operators=("Erf",),
        behaviour="it loses digits near 0, and is 0 where a number of 1e-8 is due",
        applies=lambda call: not _is_beside_one(call),
    ),
    Difference(
        name="ranks of If",
        operators=("If",),
        behaviour="it gives an axis to a number where the other branch has one",
        applies=_ends_in_two_ranks,
    ),
    Difference(
        name="batch first",
        operators=_RECURRENT,
        behaviour="it takes the batch for time where layout is 1",
        applies=_has_attribute("layout", 0),
    ),
    Difference(
        name="lengths of sequences",
        operators=_RECURRENT,
        behaviour="it computes beyond sequence_lens",
        applies=lambda call: call.has_input(_SEQUENCE_LENGTHS),
    ),
    Difference(
        name="peepholes of LSTM",
        operators=("LSTM",),
        behaviour="it leaves out the peepholes",
        applies=lambda call: call.has_input(_PEEPHOLES),
    ),
    Difference(
        name="coupled gates of LSTM",
        operators=("LSTM",),
        behaviour="it leaves out input_forget",
        applies=_has_attribute("input_forget", 0),
    ),
    Difference(
        name="LpPool",
        operators=("LpPool",),
        behaviour="it counts padding that ceil_mode adds",
        applies=_has_attribute("ceil_mode", 0),
    ),
    Difference(
        name="last window of MaxPool",
        operators=("MaxPool",),
        behaviour="it begins a window behind the elements where ceil_mode rounds up",
        applies=_last_window_is_padding,
    ),
    Difference(
        name="padding of MaxPool",
        operators=("MaxPool",),
        behaviour="the maximum of padding alone is a finite number",
        applies=_pools_padding,
    ),
    Difference(
        name="padding of ConvTranspose",
        operators=("ConvTranspose",),
        behaviour="it makes an empty tensor where padding leaves nothing",
        applies=_cuts_all,
    ),
    Difference(
        name="Mish",
        operators=("Mish",),
        behaviour="it loses digits below -5, and all below -12",
    ),
    Difference(
        name="Mod of infinity",
        operators=("Mod",),
        behaviour="the remainder of a number and infinity is NaN",
        applies=_is_float,
    ),
    Difference(
        name="NonMaxSuppression",
        operators=("NonMaxSuppression",),
        behaviour="it suppresses boxes that overlap by exactly the threshold",
    ),
    Difference(
        name="roots by Pow",
        operators=("Pow",),
        behaviour="it takes square roots for Pow by 0.5, of -inf and -0 too",
        applies=_is_root_of_negative,
    ),
    Difference(
        name="computed zero points",
        operators=("QuantizeLinear",),
        behaviour="what lies between two steps goes to the other where the zero point is odd",
        applies=lambda call: not call.is_constant(2),
    ),
    Difference(
        name="reductions of nothing",
        operators=("ReduceMax", "ReduceMean", "ReduceMin"),
        behaviour="it has finite numbers for the maximum, minimum and mean of nothing",
        applies=_reduces_nothing,
    ),
    Difference(
        name="maximum of infinities",
        operators=("ReduceMax", "ReduceMin"),
        behaviour="the maximum of what is -inf alone is a finite number",
        applies=_is_compared_with_infinity,
    ),
    Difference(
        name="constants behind reductions",
        operators=(
            "Einsum",
            "GlobalAveragePool",
            "GlobalMaxPool",
            "ReduceL1",
            "ReduceL2",
            "ReduceLogSum",
            "ReduceLogSumExp",
            "ReduceMax",
            "ReduceMean",
            "ReduceMin",
            "ReduceProd",
            "ReduceSum",
            "ReduceSumSquare",
        ),
        behaviour="it joins elements of three axes, reduced, with the wrong ones of a constant",
        applies=_meets_a_constant,
    ),
    Difference(
        name="reductions without axes",
        operators=("ReduceL1", "ReduceL2", "ReduceLogSum"),
        behaviour="it hands elements through where noop_with_empty_axes is set",
        applies=_takes_no_axes,
    ),
    Difference(
        name="zeros of Reshape",
        operators=("Reshape",),
        behaviour="it computes -1 otherwise where allowzero is set",
        applies=_has_attribute("allowzero", 0),
    ),
    Difference(
        name="antialiased Resize",
        operators=("Resize",),
        behaviour="it leaves out antialias",
        applies=_has_attribute("antialias", 0),
    ),
    Difference(
        name="excluded pixels of Resize",
        operators=("Resize",),
        behaviour="it leaves out exclude_outside",
        applies=_has_attribute("exclude_outside", 0),
    ),
    Difference(
        name="aspect ratio of Resize",
        operators=("Resize",),
        behaviour="it leaves out keep_aspect_ratio_policy",
        applies=_has_attribute("keep_aspect_ratio_policy", "stretch"),
    ),
    Difference(
        name="aligned corners of Resize",
        operators=("Resize",),
        behaviour="it aligns other corners where scales are stated",
        applies=_aligns_by_scales,
    ),
    Difference(
        name="nearest pixel of Resize",
        operators=("Resize",),
        behaviour="it takes a neighbouring pixel where a scale is rounded",
        applies=_rounds_scales,
    ),
    Difference(
        name="maximum of RoiAlign",
        operators=("RoiAlign",),
        behaviour="it interpolates before it takes the maximum",
        applies=_has_attribute("mode", "avg"),
    ),
    Difference(
        name="infinities of Shrink and ThresholdedRelu",
        operators=("Shrink", "ThresholdedRelu"),
        behaviour="it makes NaN of infinities",
        # The experimental ThresholdedRelu of older opsets has no kernel but OpenVINO's.
        applies=lambda call: call.node.op_type == "Shrink" or call.node.since_version >= 10,
    ),
    Difference(
        name="steps of Slice",
        operators=("Slice",),
        behaviour="a step of 32 bits or more ends the process",
        applies=_has_long_steps,
    ),
    Difference(
        name="Softplus",
        operators=("Softplus",),
        behaviour="it loses all digits below -10, and may give numbers below 0",
    ),
    Difference(
        name="uneven parts of Split",
        operators=("Split",),
        behaviour="it takes no sizes that num_outputs does not divide",
        applies=_splits_unevenly,
    ),
    Difference(
        name="zeros of Selu and HardSigmoid",
        operators=("HardSigmoid", "Selu"),
        behaviour="it takes an attribute of 0 for one that is not stated",
        applies=_has_a_zero("alpha", "beta", "gamma"),
    ),
    Difference(
        name="alpha of Celu",
        operators=("Celu",),
        behaviour="it has 0 for NaN where alpha is 0 or no number",
        applies=lambda call: not 0 < abs(call.node.attribute("alpha", 1.0)) < math.inf,
    ),
    Difference(
        name="alpha of Elu",
        operators=("Elu",),
        behaviour="it is NaN at 0 where alpha is infinite",
        applies=lambda call: not math.isfinite(call.node.attribute("alpha", 1.0)),
    ),
    Difference(
        name="clip of 0",
        operators=_RECURRENT,
        behaviour="it leaves out a clip of 0",
        applies=_has_a_zero("clip"),
    ),
    Difference(
        name="lengths of Split",
        operators=("Split",),
        behaviour="it takes a length of -1 for what is left",
        applies=_may_have_negative_lengths,
    ),
    Difference(
        name="columns of SpaceToDepth",
        operators=("SpaceToDepth",),
        behaviour="it leaves out the mode CRD",
        applies=_has_attribute("mode", "DCR"),
    ),
    Difference(
        name="diagonals of Trilu",
        operators=("Trilu",),
        behaviour="a far diagonal wraps around, or is refused",
        applies=_has_far_diagonals,
    ),
    Difference(
        name="Tile by computed numbers",
        operators=("Tile",),
        behaviour="it returns memory that nobody wrote where repeats are no constant",
        applies=lambda call: not call.is_constant(1),
    ),
    Difference(
        name="ties of TopK",
        operators=("TopK",),
        behaviour="of equal elements it takes others than the first",
        applies=lambda call: call.numbers(1) != (1.0,),
    ),
)
_OF_ALL = (
    Difference(
        name="integers of 64 bits",
        operators=(),
        behaviour="it keeps 32 bits of integers",
        applies=_is_of_64_bits,
    ),
    Difference(
        name="computing on integers",
        operators=(),
        behaviour="it computes integers in float32, and lets those of 8 bits saturate",
        applies=_computes_integers,
    ),
    Difference(
        name="floats of 64 bits",
        operators=(),
        behaviour="it keeps 32 bits of floats",
        applies=_is_of_double,
    ),
)

# --- operators of com.microsoft, held against onnxruntime 1.31 ------------------------------------

_FUSED_GEMM_ACTIVATIONS = ("", "LeakyRelu", "Relu")
_MAT_MUL_GROUPS = 4
_ROTARY_POSITIONS = 1
_WRAPS = "what is out of the range of 8 bits wraps around"


def _has_one_position(call: _Call) -> bool:
    shape = call.shape(_ROTARY_POSITIONS)
    return shape is None or len(shape) <= 1


def _has_any(*names: str) -> Callable[[_Call], bool]:
    return lambda call: any(call.node.attribute(name) not in (None, 0) for name in names)


_MICROSOFT_ROWS = (
    Difference(
        name="scale of com.microsoft Attention",
        operators=("Attention",),
        behaviour="it leaves out mask_filter_value and scale",
        applies=lambda call: any(
            call.node.attribute(name) is not None for name in ("mask_filter_value", "scale")
        ),
        domain=MICROSOFT_DOMAIN,
    ),
    Difference(
        name="lengths of DynamicQuantizeLSTM",
        operators=("DynamicQuantizeLSTM",),
        behaviour="it computes beyond sequence_lens",
        applies=lambda call: call.has_input(_SEQUENCE_LENGTHS),
        domain=MICROSOFT_DOMAIN,
    ),
    Difference(
        name="activations of FusedGemm",
        operators=("FusedGemm",),
        behaviour="it leaves out every activation but Relu and LeakyRelu",
        applies=_has_attribute("activation", *_FUSED_GEMM_ACTIVATIONS),
        domain=MICROSOFT_DOMAIN,
    ),
    Difference(
        name="transposed batches of FusedMatMul",
        operators=("FusedMatMul",),
        behaviour="it leaves out transBatchA and transBatchB",
        applies=_has_any("transBatchA", "transBatchB"),
        domain=MICROSOFT_DOMAIN,
    ),
    Difference(
        name="GroupQueryAttention",
        operators=("GroupQueryAttention",),
        behaviour="it knows a batch of 1 only, and caches as long as what is in them",
        domain=MICROSOFT_DOMAIN,
    ),
    Difference(
        name="groups of MatMulNBits",
        operators=("MatMulNBits",),
        behaviour="g_idx ends the process, or is read as something else",
        applies=lambda call: call.has_input(_MAT_MUL_GROUPS),
        domain=MICROSOFT_DOMAIN,
    ),
    Difference(
        name="quantized arithmetic",
        operators=("QLinearAdd", "QLinearConcat", "QLinearLeakyRelu", "QLinearMul"),
        behaviour=_WRAPS,
        domain=MICROSOFT_DOMAIN,
    ),
    Difference(
        name="QLinearAveragePool",
        operators=("QLinearAveragePool",),
        behaviour=f"{_WRAPS}, and channels that come last are an axis of the picture",
        domain=MICROSOFT_DOMAIN,
    ),
    Difference(
        name="rotation of a part",
        operators=("RotaryEmbedding",),
        behaviour="it turns all of a head where rotary_embedding_dim says a part",
        applies=_has_attribute("rotary_embedding_dim", 0),
        domain=MICROSOFT_DOMAIN,
    ),
    Difference(
        name="rotation from an offset",
        operators=("RotaryEmbedding",),
        behaviour="it takes the first position for that of every token",
        applies=_has_one_position,
        domain=MICROSOFT_DOMAIN,
    ),
)
_ML_ROWS = (
    Difference(
        name="largest element of Normalizer",
        operators=("Normalizer",),
        behaviour="it divides by the largest magnitude where norm is MAX",
        applies=lambda call: call.node.attribute("norm", "MAX") == "MAX",
        domain="ai.onnx.ml",
    ),
)

#: The whole table, in the order in which documents show it.
DIFFERENCES: tuple[Difference, ...] = (*_OF_ALL, *_ONNX_ROWS, *_MICROSOFT_ROWS, *_ML_ROWS)
_BY_OPERATOR = by_operator(DIFFERENCES)
