"""A partition as a native library reads it: the bytes of an ONNX model."""

from __future__ import annotations

from ortpkg.graph.graph import Graph
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_writer import to_model_proto
from ortpkg.providers.native_library import NativeModel

#: Understood by every release of the libraries that we support, and new enough for 4-bit types.
_IR_VERSION = 10
#: protobuf's limit for one message; more needs external data.
_MOST_MODEL_NBYTES = (1 << 31) - 1


def native_model(body: Graph) -> NativeModel:
    """A partition's body as a library reads it. ValueError where it is larger than one message may be."""
    proto = to_model_proto(Model(graph=body, ir_version=_IR_VERSION))
    if proto.ByteSize() > _MOST_MODEL_NBYTES:
        raise ValueError(f"the model has {proto.ByteSize()} bytes; at most {_MOST_MODEL_NBYTES} can be handed over")
    return NativeModel(data=proto.SerializeToString(), inputs=body.inputs, outputs=body.outputs)
