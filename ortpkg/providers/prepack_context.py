"""A prepacked partition as parts of a context: its graph, and each large constant.

``graph`` is an ONNX model that has the optimized partition's nodes, with the types that were
inferred for their values, and small constants; large constants are among its inputs.
``weight:<name>`` is one of those, ``packed:<node position>:<name>`` what a kernel made of its
constants, both as the bytes of a C-contiguous array; ``layouts`` says, as JSON, types and shapes of
the latter. Parts with equal bytes are stored once, so that partitions, and models of a group, share
weights.

All of it comes from a stranger: names, types, shapes and lengths are checked, the graph is checked
as any model is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import onnx

from ortpkg.ep_context.ep_context_file import ContextEntry, Part
from ortpkg.ep_names import PREPACK_EP
from ortpkg.errors import EpContextError, ModelError, quoted
from ortpkg.graph.graph import ArrayInitializer, Graph
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.onnx_writer import WriteOptions, inline_tensor, to_model_proto
from ortpkg.graph.types import ElementType, TensorType, element_type_of, numpy_dtype
from ortpkg.kernels.op_kernel import Tensor
from ortpkg.providers.execution_provider import FusedNode, GraphEngine
from ortpkg.providers.prepack_partition import PrepackedPartition, PrepackKernels

_IR_VERSION = 10
#: Smaller constants stay in the graph: each part begins on a page of its own.
_SMALLEST_PART_NBYTES = 1024
_WEIGHT, _PACKED, _GRAPH, _LAYOUTS = "weight:", "packed:", "graph", "layouts"
_MOST_LAYOUTS_NBYTES = 1 << 20


def parts_of(partition: PrepackedPartition) -> dict[str, Part]:
    """The partition as parts of a context; arrays are not copied."""
    graph = partition.graph
    large = {
        name: initializer
        for name, initializer in graph.initializers.items()
        if initializer.nbytes >= _SMALLEST_PART_NBYTES
    }
    options = WriteOptions(
        tensor=inline_tensor,
        attribute_tensor=inline_tensor,
        keeps_initializer=lambda _graph, name: name not in large,
    )
    proto = to_model_proto(Model(graph=graph, ir_version=_IR_VERSION), options=options)
    for name, initializer in large.items():
        element_type = int(initializer.element_type)
        proto.graph.input.append(
            onnx.helper.make_tensor_value_info(name, element_type, initializer.shape)
        )
    layouts = {
        name: {"type": element_type_of(array.dtype).name, "shape": list(array.shape)}
        for name, array in partition.packed.items()
    }
    return {
        _GRAPH: proto.SerializeToString(deterministic=True),
        _LAYOUTS: json.dumps(layouts, sort_keys=True).encode(),
        **{
            f"{_WEIGHT}{name}": _bytes_of(initializer.numpy())
            for name, initializer in large.items()
        },
        **{f"{_PACKED}{name}": _bytes_of(array) for name, array in partition.packed.items()},
    }


def partition_from(
    entry: ContextEntry, fused: FusedNode, engine: GraphEngine, kernels: PrepackKernels
) -> PrepackedPartition:
    """The partition that :func:`parts_of` took apart, its weights where the context has them.

    Raises EpContextError where something is missing or does not fit.
    """
    try:
        graph = load_model(bytes(entry.parts[_GRAPH])).graph
        _add_weights(graph, entry.parts)
        _check_signature(graph, fused)
        return PrepackedPartition(graph, engine, kernels, _packed_arrays(entry.parts))
    except (ModelError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise EpContextError(
            f"the context of partition {quoted(entry.name)} is not what {PREPACK_EP} writes:"
            f" {error}",
            ep_name=PREPACK_EP,
            partition_name=entry.name,
        ) from error


def _add_weights(graph: Graph, parts: Mapping[str, Part]) -> None:
    names = [part.removeprefix(_WEIGHT) for part in parts if part.startswith(_WEIGHT)]
    graph_inputs = graph.inputs
    graph.set_inputs([name for name in graph_inputs if name not in names])
    for name in names:
        declared = graph.types.get(name)
        if (
            name not in graph_inputs
            or not isinstance(declared, TensorType)
            or declared.shape is None
        ):
            raise ValueError(
                f"the weight {quoted(name)} is no input of the graph with a type and a shape"
            )
        array = _array(parts[f"{_WEIGHT}{name}"], declared.element_type, declared.shape, name)
        graph.add_initializer(ArrayInitializer(name, array, declared.element_type))


def _check_signature(graph: Graph, fused: FusedNode) -> None:
    ours, theirs = (
        (len(graph.inputs), len(graph.outputs)),
        (len(fused.node.inputs), len(fused.node.outputs)),
    )
    if ours != theirs:
        raise ValueError(
            f"it has {ours[0]} inputs and {ours[1]} outputs, the node {theirs[0]} and {theirs[1]}"
        )


def _packed_arrays(parts: Mapping[str, Part]) -> dict[str, Tensor]:
    text = bytes(parts[_LAYOUTS])
    if len(text) > _MOST_LAYOUTS_NBYTES:
        raise ValueError(f"its layouts take {len(text)} bytes, of at most {_MOST_LAYOUTS_NBYTES}")
    layouts = json.loads(text)
    return {
        name: _array(parts[f"{_PACKED}{name}"], ElementType[layout["type"]], layout["shape"], name)
        for name, layout in layouts.items()
    }


def _array(part: Part, element_type: ElementType, shape: Any, name: str) -> Tensor:
    """The part as an array, without a copy; ValueError where its length does not fit."""
    dtype = numpy_dtype(element_type)
    sizes = tuple(shape)
    if element_type in (ElementType.STRING, ElementType.UNDEFINED) or not all(
        type(size) is int and size >= 0 for size in sizes
    ):
        raise ValueError(f"{quoted(name)} has no plain type and shape")
    nbytes = memoryview(part).nbytes
    if nbytes != prod(sizes) * dtype.itemsize:
        raise ValueError(
            f"{quoted(name)} has {nbytes} bytes; {element_type.name.lower()}{list(sizes)} needs"
            " others"
        )
    array = np.frombuffer(part, dtype=np.uint8).view(dtype).reshape(sizes)
    array.flags.writeable = False
    return array


def _bytes_of(array: Tensor) -> Part:
    contiguous = np.ascontiguousarray(array)
    return contiguous.reshape(-1).view(np.uint8).data if contiguous.size else b""
