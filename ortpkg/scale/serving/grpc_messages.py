"""Messages of the protocol's gRPC service, made from its compiled definition.

``open_inference_grpc.binpb`` is what protoc makes of ``open_inference_grpc.proto``
(``scripts/compile_protocol.py``). Python code that protoc generates runs with two major versions of
protobuf; a definition is read by all of them. The messages are in a descriptor pool of their own,
since clients bring others of the same names, which one pool cannot hold.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet  # type: ignore[import-untyped]
from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

_PACKAGE = "inference"


def _read_definition() -> DescriptorPool:
    """Return a pool with the definition's messages and service."""
    compiled = files(__package__).joinpath("open_inference_grpc.binpb").read_bytes()
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(compiled).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _read_definition()
#: Service with its methods, and the messages that they take and return.
SERVICE: Any = _POOL.FindServiceByName(f"{_PACKAGE}.GRPCInferenceService")


def message_class(name: str) -> Any:
    """Return the class of the protocol's message of that name."""
    return GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


ServerLiveResponse = message_class("ServerLiveResponse")
ServerReadyResponse = message_class("ServerReadyResponse")
ServerMetadataResponse = message_class("ServerMetadataResponse")
ModelReadyResponse = message_class("ModelReadyResponse")
ModelMetadataResponse = message_class("ModelMetadataResponse")
ModelInferRequest = message_class("ModelInferRequest")
ModelInferResponse = message_class("ModelInferResponse")
