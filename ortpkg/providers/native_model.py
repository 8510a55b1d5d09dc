"""A partition as a native library reads it: the bytes of an ONNX model."""

from __future__ import annotations

import contextlib

import onnx
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

from ortpkg.graph.graph import Graph
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_writer import to_model_proto
from ortpkg.graph.types import ElementType
from ortpkg.providers.index_guards import IndexGuards
from ortpkg.providers.native_library import NativeModel
from ortpkg.providers.small_integers import element_type_of

#: Understood by every release of the libraries that we support, and new enough for 4-bit types.
_IR_VERSION = 10
#: protobuf's limit for one message; more needs external data.
_MOST_MODEL_NBYTES = (1 << 31) - 1


def native_model(body: Graph, guards: IndexGuards | None = None) -> NativeModel:
    """Return a partition's body as a library reads it.

    Args:
        body: body of the partition.
        guards: checks whose values become further outputs: indices, then shapes.

    Raises:
        ValueError: it is larger than one message may be.
    """
    nbytes = sum(tensor.nbytes for tensor in body.initializers.values())
    if (
        nbytes <= _MOST_MODEL_NBYTES
    ):  # to ask the message how long it will be takes as long as to write it
        with contextlib.suppress(EncodeError):
            proto = to_model_proto(Model(graph=body, ir_version=_IR_VERSION))
            further = () if guards is None else _add_outputs(proto.graph, body, guards)
            data = proto.SerializeToString()
            if len(data) <= _MOST_MODEL_NBYTES:
                outputs = (*body.outputs, *further)
                return NativeModel(data=data, inputs=body.inputs, outputs=outputs)
    raise ValueError(
        f"the model has {nbytes} bytes of weights; at most {_MOST_MODEL_NBYTES} bytes of a model"
        " can be handed over"
    )


def _add_outputs(proto: onnx.GraphProto, body: Graph, guards: IndexGuards) -> tuple[str, ...]:
    """Make outputs of the values that guards check; return the names of these outputs."""
    shapes = []
    for value in guards.shapes:
        shapes.append(body.make_name("shape"))
        proto.node.append(onnx.helper.make_node("Shape", [value], [shapes[-1]]))
    for value in (*guards.indices, *shapes):
        element_type = element_type_of(body, value) or ElementType.INT64
        proto.output.append(onnx.helper.make_tensor_value_info(value, int(element_type), None))
    return (*guards.indices, *shapes)
