"""A partition as a native library reads it: the bytes of an ONNX model."""

from __future__ import annotations

import contextlib

from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

from ortpkg.graph.graph import Graph
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_writer import to_model_proto
from ortpkg.providers.native_library import NativeModel

#: Understood by every release of the libraries that we support, and new enough for 4-bit types.
_IR_VERSION = 10
#: protobuf's limit for one message; more needs external data.
_MOST_MODEL_NBYTES = (1 << 31) - 1


def native_model(body: Graph) -> NativeModel:
    """A partition's body as a library reads it.

    ValueError where it is larger than one message may be.
    """
    nbytes = sum(each.nbytes for each in body.initializers.values())
    if (
        nbytes <= _MOST_MODEL_NBYTES
    ):  # to ask the message how long it will be takes as long as to write it
        with contextlib.suppress(EncodeError):
            data = to_model_proto(Model(graph=body, ir_version=_IR_VERSION)).SerializeToString()
            if len(data) <= _MOST_MODEL_NBYTES:
                return NativeModel(data=data, inputs=body.inputs, outputs=body.outputs)
    raise ValueError(
        f"the model has {nbytes} bytes of weights; at most {_MOST_MODEL_NBYTES} bytes of a model"
        " can be handed over"
    )
