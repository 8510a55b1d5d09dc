"""Runs single nodes, and chains of them, on the registry's kernels without the engine.

Every run is a harsh one: inputs are read-only, output buffers start as garbage, and with
``in_place=True`` an output that a kernel declares in-place really lies in its input's buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ortpkg.foundations.errors import LimitExceededError
from ortpkg.graph.graph import ArrayInitializer, Attribute, Node
from ortpkg.graph.types import ElementType, TensorType, ValueType, element_type_of, numpy_dtype
from ortpkg.runtime.kernels.cpu_kernels import cpu_kernel_registry
from ortpkg.runtime.kernels.kernel_registry import KernelDef
from ortpkg.runtime.kernels.op_kernel import Compute, Tensor, Value

_GARBAGE = 0xA5
LATEST_OPSET = onnx.defs.onnx_opset_version()


@dataclass
class NodeInfo:
    """An OpKernelInfo from a node and what is known about its inputs."""

    node: Node
    opset: int
    constants: dict[int, Tensor] = field(default_factory=dict)
    input_types: dict[int, ValueType] = field(default_factory=dict)

    def attribute(self, name: str, default: Any = None) -> Any:
        value = self.node.attribute(name, default)
        return value.numpy() if isinstance(value, ArrayInitializer) else value

    def constant_input(self, slot: int) -> Tensor | None:
        return self.constants.get(slot)

    def prepacked(self, name: str, make: Callable[[], Tensor]) -> Tensor:
        assert name
        return make()

    def input_type(self, slot: int) -> ValueType | None:
        return self.input_types.get(slot)

    def output_type(self, slot: int) -> ValueType | None:
        return None


@dataclass
class RunContext:
    """An OpKernelContext with limited memory, buffers of garbage, and in place on request.

    Attributes:
        held_nbytes: what outputs take, as in a run that has a limit.
    """

    limit_nbytes: int = 1 << 30
    held_nbytes: int = 0
    in_place_inputs: dict[int, list[Tensor]] = field(default_factory=dict)
    asked: list[tuple[int, ...]] = field(default_factory=list)

    def device_target(self, index: int) -> object:
        return None

    def output(self, index: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
        assert isinstance(dtype, np.dtype), "kernels ask with a dtype, not with a type"
        assert all(type(dimension) is int for dimension in shape), (
            f"dimensions of {shape} are Python integers"
        )
        self.asked.append(shape)
        nbytes = dtype.itemsize
        for dimension in shape:
            nbytes *= dimension
        self.check_allocation(nbytes)
        for candidate in self.in_place_inputs.get(index, ()):
            if (
                candidate.shape == shape
                and candidate.dtype == dtype
                and candidate.flags.c_contiguous
            ):
                candidate.flags.writeable = True
                return candidate
        self.held_nbytes += nbytes
        if dtype == np.dtype(object):
            return np.empty(shape, dtype)
        return np.full(max(nbytes, 1), _GARBAGE, np.uint8)[:nbytes].view(dtype).reshape(shape)

    def check_allocation(self, nbytes: int) -> None:
        if self.held_nbytes + nbytes > self.limit_nbytes:
            raise LimitExceededError(f"{nbytes} bytes more would pass the limit", limit="memory")

    @property
    def is_watched(self) -> bool:
        return False

    @property
    def is_memory_limited(self) -> bool:
        return False

    def check_cancelled(self) -> None:
        return None

    def run_subgraph(self, attribute: str, feeds: list[Value]) -> list[Value]:
        raise NotImplementedError(f"the node runner runs no sub-graphs ({attribute})")


class NoKernelError(LookupError):
    """The registry has no kernel for a node."""


def as_node(proto: onnx.NodeProto, opset_imports: dict[str, int]) -> Node:
    """The engine's node for a NodeProto, with the since-version that its imports mean."""
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    try:
        since = onnx.defs.get_schema(proto.op_type, opset_imports[domain], domain).since_version
    except onnx.defs.SchemaError:
        since = 1
    return Node(
        index=0,
        name=proto.name or proto.op_type,
        op_type=proto.op_type,
        domain=domain,
        inputs=tuple(proto.input),
        outputs=tuple(proto.output),
        attributes={attribute.name: _as_attribute(attribute) for attribute in proto.attribute},
        since_version=since,
    )


def _as_attribute(proto: onnx.AttributeProto) -> Attribute:
    kind = onnx.AttributeProto.AttributeType.Name(proto.type)
    if kind == "TENSOR":
        array = numpy_helper.to_array(proto.t)
        return Attribute(
            kind, ArrayInitializer(proto.t.name, array, ElementType(proto.t.data_type))
        )
    value = helper.get_attribute_value(proto)
    return Attribute(kind, tuple(value) if isinstance(value, list) else value)


def constraint_types(node: Node, inputs: Sequence[Value], opset: int) -> dict[str, ElementType]:
    """Type-constraint name → element type, from the values that stand at the node's inputs."""
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return {}
    found: dict[str, ElementType] = {}
    for slot, value in enumerate(inputs):
        formal = schema.inputs[min(slot, len(schema.inputs) - 1)]
        if isinstance(value, np.ndarray) and not formal.type_str.startswith(("tensor(", "seq(")):
            found.setdefault(formal.type_str, element_type_of(value.dtype))
    return found


def find_kernel(node: Node, inputs: Sequence[Value], opset: int) -> KernelDef:
    definition = cpu_kernel_registry().try_find_kernel(node, constraint_types(node, inputs, opset))
    if definition is None:
        types = [getattr(value, "dtype", type(value)) for value in inputs]
        raise NoKernelError(f"{node.domain}:{node.op_type}-{node.since_version} of {types}")
    return definition


def make_compute(
    node: Node, inputs: Sequence[Value], opset: int, constant_slots: Sequence[int] = ()
) -> tuple[KernelDef, Compute]:
    """The kernel definition and compute function for ``node`` with inputs like ``inputs``."""
    info = NodeInfo(
        node=node,
        opset=opset,
        constants={slot: inputs[slot] for slot in constant_slots if inputs[slot] is not None},
        input_types={
            slot: TensorType(element_type_of(value.dtype), value.shape)
            for slot, value in enumerate(inputs)
            if isinstance(value, np.ndarray)
        },
    )
    definition = find_kernel(node, inputs, opset)
    return definition, definition.factory(info)


def compute_node(
    node: Node,
    inputs: Sequence[Value],
    opset: int,
    *,
    constant_slots: Sequence[int] = (),
    in_place: bool = False,
    limit_nbytes: int = 1 << 30,
) -> tuple[Value, ...]:
    """Runs one node; always a tuple with one value per output that the kernel gave."""
    fed = [
        value.copy() if in_place and isinstance(value, np.ndarray) else value for value in inputs
    ]
    definition, compute = make_compute(node, fed, opset, constant_slots)
    context = RunContext(limit_nbytes=limit_nbytes)
    if in_place:
        for slot, output in definition.in_place:
            if slot < len(fed) and isinstance(fed[slot], np.ndarray) and slot not in constant_slots:
                context.in_place_inputs.setdefault(output, []).append(fed[slot])
    for value in fed:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    with np.errstate(all="ignore"):
        result = compute(context, *fed)
    outputs = result if isinstance(result, tuple) else (result,)
    for value in outputs:
        assert value is None or isinstance(value, np.ndarray | list), (
            f"{type(value)} is not a value of ONNX"
        )
    return outputs


def run_op(
    op_type: str,
    *inputs: Value,
    opset: int = LATEST_OPSET,
    domain: str = "",
    outputs: int = 1,
    constant_slots: Sequence[int] = (),
    in_place: bool = False,
    limit_nbytes: int = 1 << 30,
    **attributes: Any,
) -> Any:
    """Runs one operator on ``inputs`` (None: left out): its output, or ``outputs`` of them."""
    proto = helper.make_node(
        op_type,
        ["" if value is None else f"x{slot}" for slot, value in enumerate(inputs)],
        [f"y{index}" for index in range(outputs)],
        domain=domain,
        **attributes,
    )
    version = 1 if domain else opset
    node = as_node(proto, {domain: version})
    found = compute_node(
        node,
        inputs,
        version,
        constant_slots=constant_slots,
        in_place=in_place,
        limit_nbytes=limit_nbytes,
    )
    return found if outputs > 1 else found[0]


def run_model(
    model: onnx.ModelProto,
    feeds: Sequence[Value],
    *,
    in_place: bool = False,
    constants: bool = False,
) -> list[Value]:
    """Runs the nodes of a model without sub-graphs in their order.

    ``constants``: kernels see every input but the node's first as a constant, so that their
        prepared paths run.
    """
    imports = {"" if i.domain == "ai.onnx" else i.domain: i.version for i in model.opset_import}
    values: dict[str, Value] = {"": None}
    values.update(
        {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    )
    values.update({i.name: value for i, value in zip(model.graph.input, feeds, strict=False)})
    for proto in model.graph.node:
        node = as_node(proto, imports)
        inputs = [values[name] for name in proto.input]
        slots = range(1, len(inputs)) if constants else ()
        results = compute_node(
            node, inputs, imports[node.domain], in_place=in_place, constant_slots=slots
        )
        values.update(
            {name: value for name, value in zip(proto.output, results, strict=False) if name}
        )
    return [values[output.name] for output in model.graph.output]


def as_value(expected: Any) -> Value:
    """A data set's entry as a run-time value (strings as objects, TensorProto decoded)."""
    if isinstance(expected, onnx.TensorProto):
        expected = numpy_helper.to_array(expected)
    if isinstance(expected, list):
        return [as_value(item) for item in expected]
    if isinstance(expected, np.ndarray) and expected.dtype.kind in "US":
        return expected.astype(object)
    return np.asarray(expected) if isinstance(expected, np.generic | int | float) else expected


def assert_same(actual: Value, expected: Value, *, rtol: float, atol: float = 1e-7) -> None:
    """Same structure, element type and shape, and values within tolerance (floats only)."""
    if isinstance(expected, list):
        assert isinstance(actual, list | np.ndarray)
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_same(one, other, rtol=rtol, atol=atol)
        return
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if expected.dtype == numpy_dtype(ElementType.STRING):
        assert actual.tolist() == expected.tolist()
    elif expected.dtype.kind in "iub":
        np.testing.assert_array_equal(actual, expected)
    else:
        kind = np.complex128 if expected.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(actual.astype(kind), expected.astype(kind), rtol=rtol, atol=atol)
