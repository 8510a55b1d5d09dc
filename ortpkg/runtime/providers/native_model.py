"""Partition in a native library's form: the bytes of an ONNX model, without large weights."""

from __future__ import annotations

import onnx
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

from ortpkg.graph.graph import Graph, Initializer
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_writer import WriteOptions, inline_tensor, to_model_proto
from ortpkg.graph.types import ElementType
from ortpkg.runtime.providers.index_guards import PartitionGuards
from ortpkg.runtime.providers.library_traits import WeightForm
from ortpkg.runtime.providers.native_library import NativeModel
from ortpkg.runtime.providers.native_weights import ConstantWriter
from ortpkg.runtime.providers.small_integers import element_type_of

#: Understood by every release of the libraries that we support, and new enough for 4-bit types.
_IR_VERSION = 10
#: protobuf's limit for one message; the rest has to lie outside of it.
_MOST_MODEL_NBYTES = (1 << 31) - 1


def native_model(
    body: Graph, guards: PartitionGuards | None = None, *, form: WeightForm = WeightForm.INSIDE
) -> NativeModel:
    """Return a partition's body as a library reads it.

    Args:
        body: body of the partition.
        guards: checks whose values become further outputs: indices, then shapes.
        form: how the library takes weights beside the message.

    Raises:
        ValueError: what the message must contain is larger than one message may be.
    """
    weights = ConstantWriter(body, form)
    message = _MessageSize()

    def write(initializer: Initializer) -> onnx.TensorProto:
        return weights.external(initializer) or message.inline(initializer)

    options = WriteOptions(
        tensor=write,
        attribute_tensor=message.inline,
        keeps_initializer=lambda graph, name: not weights.is_input(graph, name),
    )
    proto = to_model_proto(Model(graph=body, ir_version=_IR_VERSION), options=options)
    for name, weight in weights.weights.items():
        if form is WeightForm.INPUTS:
            proto.graph.input.append(
                onnx.helper.make_tensor_value_info(name, weight.element_type, weight.shape)
            )
    further = () if guards is None else _add_outputs(proto.graph, body, guards)
    return NativeModel(
        data=message.serialize(proto),
        inputs=body.inputs,
        outputs=(*body.outputs, *further),
        weights=weights.weights,
        folder=weights.folder,
        files=weights.files,
        weights_nbytes=weights.weights_nbytes,
    )


class _MessageSize:
    """Size of the constants inside a message, compared with protobuf's limit."""

    def __init__(self) -> None:
        self._nbytes = 0

    def inline(self, initializer: Initializer) -> onnx.TensorProto:
        """Return the message of a constant with its data."""
        self._nbytes += initializer.nbytes
        if self._nbytes > _MOST_MODEL_NBYTES:
            raise self._too_large()
        return inline_tensor(initializer)

    def serialize(self, proto: onnx.ModelProto) -> bytes:
        """Return the bytes of the whole message."""
        try:
            data: bytes = proto.SerializeToString()
        except EncodeError as error:
            raise self._too_large() from error
        if len(data) > _MOST_MODEL_NBYTES:
            raise self._too_large()
        return data

    def _too_large(self) -> ValueError:
        return ValueError(
            f"the model has {self._nbytes} bytes or more of weights that its library only takes"
            f" inside of a message; at most {_MOST_MODEL_NBYTES} bytes of a model can be handed"
            " over so"
        )


def _add_outputs(proto: onnx.GraphProto, body: Graph, guards: PartitionGuards) -> tuple[str, ...]:
    """Make outputs of the values that guards check; return the names of these outputs."""
    shapes = []
    for value in guards.shapes:
        shapes.append(body.make_name("shape"))
        proto.node.append(onnx.helper.make_node("Shape", [value], [shapes[-1]]))
    for value in (*guards.indices, *shapes):
        element_type = element_type_of(body, value) or ElementType.INT64
        proto.output.append(onnx.helper.make_tensor_value_info(value, int(element_type), None))
    return (*guards.indices, *shapes)
