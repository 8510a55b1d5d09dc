"""Run nodes on float16 and bfloat16 in float32, with casts where float32 begins and ends.

Results are correct only with this transformer, so it runs after the partition at every
optimization level, as onnxruntime's does. It takes nodes whose provider has no kernel for the
narrow type, and nodes whose kernel would widen its inputs and round its outputs, each by itself.
Before the partition, :func:`widen_nodes` does the same for providers that run a node in float32
only (ADR 15). It follows onnxruntime 1.31 (``insert_cast_transformer.cc``):

- Neighbours in float32 pass values on as they are. The rounding to the narrow type between them is
  dropped: results are nearer to float32's, and stay finite past the narrow type's range.
- So do nodes between them that only move values. (onnxruntime takes one such node in a row; here
  any number is taken.)
- A model's own cast next to such a node is dropped likewise, if it converts from or to float32;
  one from other numbers gives float32.
- Constants are converted once. (With optimization off, onnxruntime casts them in each run.)

Graph inputs and outputs, values that sub-graphs take, and nodes that are about the narrow type keep
that type.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ortpkg.graph.graph import ONNX_DOMAIN, Attribute, Graph, Node
from ortpkg.graph.operator_schemas import constraint_types, resolve_since_version
from ortpkg.graph.topology import topological_order
from ortpkg.graph.types import ElementType, TensorType
from ortpkg.runtime.engine.transformers.narrow_float_operators import (
    NARROW_FLOATS,
    may_run_in_float32,
    only_moves_values,
)
from ortpkg.runtime.engine.transformers.rewriting import (
    add_constant,
    bypass_node,
    constant_array,
    has_used_output,
    tensor_type,
)
from ortpkg.runtime.engine.transformers.transform_context import GraphPass, TransformContext

#: Types to which a cast from the narrow type may as well read the float32 value before it.
_NUMBERS = frozenset({
    ElementType.FLOAT, ElementType.DOUBLE, ElementType.FLOAT16, ElementType.BFLOAT16,
    ElementType.BOOL, ElementType.INT8, ElementType.INT16, ElementType.INT32, ElementType.INT64,
    ElementType.UINT8, ElementType.UINT16, ElementType.UINT32, ElementType.UINT64,
})  # fmt: skip


@dataclass(slots=True)
class _Widening:
    """Values and casts that one pass over a graph has made so far.

    Attributes:
        wide_of: narrow value → the same in float32.
        casts_back: casts to the narrow type behind nodes in float32.
        left_behind: narrow constants, and casts of the model's own, that nodes in float32 no longer
            take.
    """

    wide_of: dict[str, str] = field(default_factory=dict)
    casts_back: list[Node] = field(default_factory=list)
    left_behind: list[str] = field(default_factory=list)


def _run(graph: Graph, context: TransformContext) -> int:
    removed = _remove_casts_to_same_type(graph, context)
    order = topological_order(graph)
    chosen = _nodes_for_float32(graph, order, context)
    _widen_all(graph, order, chosen, context)
    return removed + len(chosen)


def widenable_nodes(graph: Graph) -> set[int]:
    """Return nodes without a provider that take narrow floats and may compute in float32 instead.

    Their results in float32 differ by rounding only.
    """
    return {
        node.index
        for node in graph.nodes
        if not node.execution_provider and _may_widen(graph, node)
    }


def widen_nodes(graph: Graph, wanted: Collection[int]) -> set[int]:
    """Put nodes of :func:`widenable_nodes` into float32, with casts around them.

    Returns:
        Those of ``wanted`` that were changed. Nodes that only move values and are not between
        others of ``wanted`` stay: they would gain nothing.
    """
    movers = [index for index in sorted(wanted) if only_moves_values(graph.node(index))]
    chosen = set(wanted).difference(movers)
    if not chosen:
        return chosen
    chosen |= _movers_between(graph, movers, chosen)
    _widen_all(
        graph, topological_order(graph), chosen, TransformContext(execution_providers=frozenset())
    )
    return chosen


def _widen_all(
    graph: Graph, order: Sequence[int], chosen: Collection[int], context: TransformContext
) -> None:
    state = _Widening()
    for index in order:
        if index in chosen:
            _widen(graph, graph.node(index), context, state)
    for cast in state.casts_back:
        _pass_on(graph, cast, context)
    for value in state.left_behind:
        _remove_unused(graph, value)


def _remove_casts_to_same_type(graph: Graph, context: TransformContext) -> int:
    """Remove casts between two float32 nodes; with optimization off, nothing else does."""
    casts = [
        node
        for node in graph.nodes
        if _is_cast(node, context) and _is_narrow(graph, node.inputs[0])
    ]
    return sum(_target(cast) in NARROW_FLOATS and bypass_node(graph, cast) for cast in casts)


# --- which nodes ----------------------------------------------------------------------------------


def _nodes_for_float32(graph: Graph, order: Sequence[int], context: TransformContext) -> set[int]:
    chosen: set[int] = set()
    movers: list[int] = []
    for index in order:
        node = graph.node(index)
        if not context.may_change(node) or not _has_float32_kernel(graph, node, context):
            continue
        if only_moves_values(node) and context.kernel_exists(node, constraint_types(graph, node)):
            movers.append(index)
        else:
            chosen.add(index)
    return chosen | _movers_between(graph, movers, chosen) if chosen else chosen


def _may_widen(graph: Graph, node: Node) -> bool:
    """Return True if ``node`` takes narrow floats, only tensors, and means the same in float32."""
    if not any(_is_narrow(graph, value) for value in node.inputs) or not may_run_in_float32(node):
        return False
    return all(
        not value or tensor_type(graph, value) is not None
        for value in (*node.inputs, *node.outputs)
    )


def _has_float32_kernel(graph: Graph, node: Node, context: TransformContext) -> bool:
    return _may_widen(graph, node) and context.kernel_exists(
        node, widened_types(constraint_types(graph, node))
    )


def widened_types(types: Mapping[str, ElementType]) -> dict[str, ElementType]:
    """Return the types of a node's constraints, with float32 in place of narrow floats."""
    return {
        name: ElementType.FLOAT if element_type in NARROW_FLOATS else element_type
        for name, element_type in types.items()
    }


def _movers_between(graph: Graph, movers: Sequence[int], chosen: set[int]) -> set[int]:
    """Return those of ``movers`` whose narrow values come from and go to float32 nodes.

    Other movers that stay count as such nodes.
    """
    between = set(movers)
    suspects = list(reversed(movers))
    while suspects:
        index = suspects.pop()
        node = graph.node(index)
        if index not in between or _lies_between(graph, node, chosen, between):
            continue
        between.remove(index)
        producers = (graph.producer_of(value) for value in node.inputs if value)
        suspects += [producer.index for producer in producers if producer is not None]
        suspects += [use.node_index for value in node.outputs for use in graph.consumers_of(value)]
    return between


def _lies_between(graph: Graph, node: Node, chosen: set[int], between: set[int]) -> bool:
    makers = [
        producer
        for value in node.inputs
        if (producer := _maker_of_narrow(graph, value)) is not None
    ]
    inside = [maker.index in chosen or maker.index in between for maker in makers]
    if not any(inside) or not all(
        is_in or _casts_float32(graph, maker) for is_in, maker in zip(inside, makers, strict=True)
    ):
        return False
    narrow = [value for value in node.outputs if _is_narrow(graph, value)]
    return not any(
        graph.is_output(value)
        or any(
            use.slot < 0 or (use.node_index not in chosen and use.node_index not in between)
            for use in graph.consumers_of(value)
        )
        for value in narrow
    )


def _maker_of_narrow(graph: Graph, value: str) -> Node | None:
    return graph.producer_of(value) if _is_narrow(graph, value) else None


# --- making them take float32 ---------------------------------------------------------------------


def _widen(graph: Graph, node: Node, context: TransformContext, state: _Widening) -> None:
    for slot, value in enumerate(node.inputs):
        if _is_narrow(graph, value):
            if value not in state.wide_of:
                state.wide_of[value] = _wide_input(graph, node, value, context, state)
            graph.replace_input(node, slot, state.wide_of[value])
    narrow = {
        value: _element_type(graph, value) for value in node.outputs if _is_narrow(graph, value)
    }
    for value in narrow:
        state.wide_of[value] = _wide_value(graph, value)
    graph.set_node_outputs(
        node, [state.wide_of[value] if value in narrow else value for value in node.outputs]
    )
    state.casts_back += [
        _add_cast(graph, node, state.wide_of[value], value, to) for value, to in narrow.items()
    ]


def _wide_input(
    graph: Graph, node: Node, value: str, context: TransformContext, state: _Widening
) -> str:
    array = constant_array(graph, value, largest_nbytes=context.largest_constant_nbytes // 2)
    if array is not None:
        state.left_behind.append(value)
        return add_constant(graph, f"{value}_float", array.astype(np.float32))
    producer = graph.producer_of(value)
    if producer is not None and _casts_float32(graph, producer) and context.may_change(producer):
        state.left_behind.append(value)
        return producer.inputs[0]
    wide = _wide_value(graph, value)
    source = value
    if producer is not None and _casts_numbers(graph, producer, context):
        state.left_behind.append(value)
        source = producer.inputs[0]
    _add_cast(graph, node, source, wide, ElementType.FLOAT)
    return wide


def _pass_on(graph: Graph, cast_back: Node, context: TransformContext) -> None:
    """Let the model's own casts read the float32 value, and remove ``cast_back`` if unused."""
    narrow = cast_back.outputs[0]
    casts = [cast for cast in graph.consumer_nodes(narrow) if _is_cast(cast, context)]
    only_number_casts = sum(_target(cast) in _NUMBERS for cast in casts) == graph.use_count(narrow)
    only_casts = only_number_casts and not graph.is_output(narrow)
    for cast in casts:
        to_float = _target(cast) is ElementType.FLOAT
        if to_float or only_casts:
            graph.replace_input(cast, 0, cast_back.inputs[0])
        if to_float:
            bypass_node(graph, cast)
    if not has_used_output(graph, (narrow,)):
        graph.remove_node(cast_back)
        graph.types.pop(narrow, None)


def _remove_unused(graph: Graph, value: str) -> None:
    if graph.is_input(value) or has_used_output(graph, (value,)):
        return
    if value in graph.initializers:
        graph.remove_initializer(value)
        graph.types.pop(value, None)
    producer = graph.producer_of(value)
    if producer is not None:
        graph.remove_node(producer)
        graph.types.pop(value, None)


# --- steps ----------------------------------------------------------------------------------------


def _is_cast(node: Node, context: TransformContext) -> bool:
    return node.op_type == "Cast" and node.domain == ONNX_DOMAIN and context.may_change(node)


def _casts_float32(graph: Graph, node: Node) -> bool:
    return node.op_type == "Cast" and _element_type(graph, node.inputs[0]) is ElementType.FLOAT


def _casts_numbers(graph: Graph, node: Node, context: TransformContext) -> bool:
    """Return True for a cast of the model's own that makes narrow floats of other numbers."""
    return _is_cast(node, context) and _element_type(graph, node.inputs[0]) in _NUMBERS


def _target(cast: Node) -> ElementType | None:
    """Return the type that a cast converts to; None if the number stands for no type."""
    to = cast.attribute("to")
    if isinstance(to, str):
        return ElementType.__members__.get(to)
    return ElementType(to) if to in ElementType._value2member_map_ else None


def _element_type(graph: Graph, value: str) -> ElementType | None:
    value_type = tensor_type(graph, value)
    return None if value_type is None else value_type.element_type


def _is_narrow(graph: Graph, value: str) -> bool:
    return _element_type(graph, value) in NARROW_FLOATS


def _wide_value(graph: Graph, value: str) -> str:
    narrow = tensor_type(graph, value)
    wide = graph.make_name(f"{value}_float")
    graph.set_type(wide, TensorType(ElementType.FLOAT, None if narrow is None else narrow.shape))
    return wide


def _add_cast(graph: Graph, beside: Node, source: str, target: str, to: ElementType | None) -> Node:
    assert to is not None
    return graph.add_node(
        "Cast",
        [source],
        [target],
        name=f"InsertedCast_{target}",
        attributes={"to": Attribute("INT", int(to))},
        since_version=resolve_since_version(ONNX_DOMAIN, "Cast", graph.opset_imports[ONNX_DOMAIN]),
        execution_provider=beside.execution_provider,
        at=beside,
    )


INSERT_CAST = GraphPass(name="insert-cast", run=_run)
