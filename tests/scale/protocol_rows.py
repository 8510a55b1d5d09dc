"""Requests of the Open Inference Protocol v2, with what it demands and what our server answers.

The tests ask a server each of them; ``scripts/generate_protocol_table.py`` writes them down for people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Datatype → ONNX's word in the text form of models.
DATATYPES = {
    "BOOL": "bool",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "FP16": "float16",
    "BF16": "bfloat16",
    "FP32": "float",
    "FP64": "double",
    "BYTES": "string",
}
#: What travels as bytes alone, whoever asks.
BINARY_ONLY = ("FP16", "BF16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A request and its answer, over one of the two transports.

    Attributes:
        what: the request, for people.
        demanded: what the protocol says of it; "": nothing.
        call: HTTP's method and path, or gRPC's method.
        body: what is sent: JSON, bytes, or the fields of gRPC's message.
        answer: HTTP's status, or the name of gRPC's code.
        says: what the answer has in it, of JSON or of a message.
        note: where and why ours is another than demanded.
        headers: of HTTP.
    """

    what: str
    demanded: str = ""
    call: str
    body: Any = None
    answer: int | str
    says: Mapping[str, Any] | None = None
    note: str = ""
    headers: Mapping[str, str] | None = None


ECHO = "/v2/models/echo_fp32"
_ERROR = "an HTTP error status with `error`"
_STATUS = "an error as status"


def infer(call: str = f"POST {ECHO}/infer", *, top: Any = None, **members: Any) -> dict[str, Any]:
    """The call and body of a request whose input has those members, beside two numbers."""
    given = {"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2], **members}
    told = {name: value for name, value in given.items() if value is not None}
    return {"call": call, "body": {"inputs": [told], **(top or {})}}


def told(**members: Any) -> dict[str, Any]:
    """What answers a request of :func:`infer`."""
    output = {"name": "y", "datatype": "FP32", "shape": [2], "data": [1.0, 2.0], **members}
    return {"outputs": [output]}


_LIVE = {"live": True}
_METADATA = {
    "name": "echo_fp32",
    "versions": ["1"],
    "platform": "onnx_ortpkg",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1]}],
}
_PLATFORM = "`platform` is none of the protocol's list: `onnx_ortpkg`. A model of unknown rank states `[-1]`"
_READY = {"name": "echo_fp32", "ready": True}

HTTP_ENDPOINTS = (
    Row(what="server live", demanded="`live`", call="GET /v2/health/live", answer=200, says=_LIVE),
    Row(
        what="server ready",
        demanded="`live` (the text), `ready` (the schema)",
        call="GET /v2/health/ready",
        answer=200,
        says={"ready": True},
        note="`ready`, as Triton and KServe have it",
    ),
    Row(
        what="server metadata",
        demanded="`name`, `version`, `extensions`",
        call="GET /v2",
        answer=200,
        says={"name": "ortpkg"},
    ),
    Row(
        what="model metadata",
        demanded="name, versions, platform, inputs, outputs",
        call=f"GET {ECHO}",
        answer=200,
        says=_METADATA,
        note=_PLATFORM,
    ),
    Row(
        what="of a version",
        demanded="the same",
        call=f"GET {ECHO}/versions/1",
        answer=200,
        says=_METADATA,
    ),
    Row(
        what="model ready",
        demanded="`name`, `ready`",
        call=f"GET {ECHO}/ready",
        answer=200,
        says=_READY,
    ),
    Row(
        what="of a version",
        demanded="the same",
        call=f"GET {ECHO}/versions/1/ready",
        answer=200,
        says=_READY,
    ),
    Row(
        what="names of models",
        call="GET /v2/models",
        answer=200,
        note="not in the protocol: KServe's",
    ),
    Row(what="inference", demanded="outputs", **infer(), answer=200, says=told()),
    Row(
        what="of a version",
        demanded="`model_version`",
        **infer(f"POST {ECHO}/versions/1/infer"),
        answer=200,
        says={"model_name": "echo_fp32", "model_version": "1", **told()},
    ),
)
HTTP_REQUESTS = (
    Row(
        what="an id",
        demanded="the same `id`",
        **infer(top={"id": "7"}),
        answer=200,
        says={"id": "7", **told()},
    ),
    Row(
        what="nested data",
        demanded="accepted",
        **infer(shape=[1, 2], data=[[1, 2]]),
        answer=200,
        says=told(shape=[1, 2]),
        note="answers are flat, which the protocol leaves to the server",
    ),
    Row(
        what="a scalar",
        demanded="data is an array",
        **infer(shape=[], data=[1]),
        answer=200,
        says=told(shape=[], data=[1.0]),
    ),
    Row(
        what="no elements",
        demanded="accepted",
        **infer(shape=[0, 3], data=[]),
        answer=200,
        says=told(shape=[0, 3], data=[]),
    ),
    Row(
        what="a requested output",
        demanded="that one",
        **infer(top={"outputs": [{"name": "y"}]}),
        answer=200,
        says=told(),
    ),
    Row(
        what="parameters that nobody defined",
        demanded="server-specific",
        **infer(top={"parameters": {"priority": 3, "sequence_id": 1}}),
        answer=200,
        says=told(),
        note="ignored",
    ),
    Row(
        what="an id that is a number",
        demanded="a string",
        **infer(top={"id": 7}),
        answer=400,
    ),
    Row(what="no name of an input", demanded=_ERROR, **infer(name=None), answer=400),
    Row(what="an unknown input", demanded=_ERROR, **infer(name="z"), answer=400),
    Row(
        what="a missing input",
        demanded=_ERROR,
        call=f"POST {ECHO}/infer",
        body={"inputs": []},
        answer=400,
    ),
    Row(
        what="an unknown output",
        demanded=_ERROR,
        **infer(top={"outputs": [{"name": "z"}]}),
        answer=400,
    ),
    Row(
        what="another datatype than the model's",
        demanded=_ERROR,
        **infer(datatype="FP64"),
        answer=400,
    ),
    Row(what="fewer values than the shape", demanded=_ERROR, **infer(data=[1]), answer=400),
    Row(what="a negative size", demanded="unsigned numbers", **infer(shape=[-1]), answer=400),
    Row(what="a size that overflows", demanded=_ERROR, **infer(shape=[2**62, 2**62]), answer=400),
    Row(
        what="true for a number",
        demanded="coerced or refused",
        **infer(data=[True, 1]),
        answer=400,
        note="refused: nothing is coerced but whole numbers to floating point",
    ),
    Row(what="a number beyond FP32", demanded=_ERROR, **infer(data=[1e39, 1]), answer=400),
    Row(
        what="NaN",
        demanded="no JSON",
        call=f"POST {ECHO}/infer",
        body=b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[NaN]}]}',
        answer=400,
        note="travels in binary, and so do outputs that are not finite",
    ),
    Row(what="no JSON", demanded=_ERROR, call=f"POST {ECHO}/infer", body=b"{", answer=400),
    Row(
        what="a compressed body",
        **infer(),
        headers={"content-encoding": "gzip"},
        answer=400,
        note="not in the protocol: refused, since a small one can hold a huge one",
    ),
    Row(
        what="classification (Triton's)",
        **infer(top={"outputs": [{"name": "y", "parameters": {"classification": 1}}]}),
        answer=400,
        note="no extension of ours, and `extensions` does not name it",
    ),
    Row(
        what="shared memory (Triton's)",
        **infer(data=None, parameters={"shared_memory_region": "a"}),
        answer=400,
        note="likewise",
    ),
    Row(
        what="a bad size of binary data",
        **infer(data=None, parameters={"binary_data_size": 8}),
        answer=400,
        note="Triton's extension `binary_tensor_data`, which we have",
    ),
    Row(what="an unknown model", demanded=_ERROR, call="GET /v2/models/nope", answer=404),
    Row(what="an unknown version", demanded=_ERROR, call=f"GET {ECHO}/versions/9", answer=404),
    Row(what="another method", call=f"GET {ECHO}/infer", answer=405),
    Row(what="another path", call="GET /v3", answer=404),
    Row(
        what="more than may come",
        call=f"POST {ECHO}/infer",
        body=b"",
        headers={"content-length": str(1 << 40)},
        answer=413,
    ),
)


def grpc_infer(*, top: Any = None, **members: Any) -> dict[str, Any]:
    """The same over gRPC."""
    given = {
        "name": "x",
        "datatype": "FP32",
        "shape": [2],
        "contents": {"fp32_contents": [1, 2]},
        **members,
    }
    told = {name: value for name, value in given.items() if value is not None}
    return {
        "call": "ModelInfer",
        "body": {"model_name": "echo_fp32", "inputs": [told], **(top or {})},
    }


_RAW = b"\x00\x00\x80?\x00\x00\x00@"
_ANSWERED = {
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [2]}],
    "raw_output_contents": [_RAW],
}
_NAMED = {"name": "echo_fp32", "version": "1"}

GRPC_ENDPOINTS = (
    Row(what="server live", demanded="`live`", call="ServerLive", answer="OK", says=_LIVE),
    Row(
        what="server ready",
        demanded="`ready`",
        call="ServerReady",
        answer="OK",
        says={"ready": True},
    ),
    Row(
        what="server metadata",
        demanded="`name`, `version`, `extensions`",
        call="ServerMetadata",
        answer="OK",
        says={"name": "ortpkg"},
    ),
    Row(
        what="model metadata",
        demanded="as over HTTP",
        call="ModelMetadata",
        body={"name": "echo_fp32"},
        answer="OK",
        says=_METADATA,
    ),
    Row(
        what="of a version",
        demanded="the same",
        call="ModelMetadata",
        body=_NAMED,
        answer="OK",
        says=_METADATA,
    ),
    Row(
        what="model ready",
        demanded="`ready`",
        call="ModelReady",
        body={"name": "echo_fp32"},
        answer="OK",
        says={"ready": True},
    ),
    Row(
        what="of a version",
        demanded="the same",
        call="ModelReady",
        body=_NAMED,
        answer="OK",
        says={"ready": True},
    ),
    Row(
        what="inference",
        demanded="outputs, as contents or raw",
        **grpc_infer(),
        answer="OK",
        says=_ANSWERED,
        note="always raw, which the protocol leaves to the server",
    ),
    Row(
        what="of a version",
        demanded="`model_version`",
        **grpc_infer(top={"model_version": "1"}),
        answer="OK",
        says={"model_name": "echo_fp32", "model_version": "1", **_ANSWERED},
    ),
    Row(
        what="loading a model (KServe's)",
        call="RepositoryModelLoad",
        body={"model_name": "echo_fp32"},
        answer="UNIMPLEMENTED",
        note="clients change nothing on a server",
    ),
)
GRPC_REQUESTS = (
    Row(
        what="an id",
        demanded="the same `id`",
        **grpc_infer(top={"id": "7"}),
        answer="OK",
        says={"id": "7"},
    ),
    Row(
        what="raw contents",
        demanded="accepted",
        **grpc_infer(contents=None, top={"raw_input_contents": [_RAW]}),
        answer="OK",
        says=_ANSWERED,
    ),
    Row(
        what="both raw and typed contents",
        demanded="must not be",
        **grpc_infer(top={"raw_input_contents": [_RAW]}),
        answer="INVALID_ARGUMENT",
    ),
    Row(
        what="raw contents that are too few bytes",
        demanded="must match",
        **grpc_infer(contents=None, top={"raw_input_contents": [_RAW[1:]]}),
        answer="INVALID_ARGUMENT",
    ),
    Row(
        what="more raw contents than inputs",
        demanded="one for each",
        **grpc_infer(contents=None, top={"raw_input_contents": [_RAW, _RAW]}),
        answer="INVALID_ARGUMENT",
    ),
    Row(
        what="contents of another type",
        demanded="the field of the datatype",
        **grpc_infer(contents={"fp64_contents": [1, 2]}),
        answer="INVALID_ARGUMENT",
    ),
    Row(what="a negative size", **grpc_infer(shape=[-1]), answer="INVALID_ARGUMENT"),
    Row(what="a size that overflows", **grpc_infer(shape=[2**62, 4]), answer="INVALID_ARGUMENT"),
    Row(
        what="an unknown input",
        demanded=_STATUS,
        **grpc_infer(name="z"),
        answer="INVALID_ARGUMENT",
    ),
    Row(
        what="an unknown output",
        demanded=_STATUS,
        **grpc_infer(top={"outputs": [{"name": "z"}]}),
        answer="INVALID_ARGUMENT",
    ),
    Row(
        what="what is no message",
        demanded=_STATUS,
        call="ModelInfer",
        body=b"\xff",
        answer="INVALID_ARGUMENT",
    ),
    Row(
        what="an unknown model",
        demanded=_STATUS,
        call="ModelReady",
        body={"name": "nope"},
        answer="NOT_FOUND",
    ),
    Row(
        what="an unknown version",
        demanded=_STATUS,
        call="ModelReady",
        body={"name": "echo_fp32", "version": "9"},
        answer="NOT_FOUND",
    ),
    Row(
        what="a model's name with a version in it",
        demanded=_STATUS,
        call="ModelReady",
        body={"name": "echo_fp32/versions/1"},
        answer="NOT_FOUND",
    ),
    Row(
        what="a stream of inferences (Triton's)",
        call="ModelStreamInfer",
        body=b"",
        answer="UNIMPLEMENTED",
        note="no extension of ours; over HTTP there is `generate_stream`",
    ),
)
#: What is asked → the rows, as the table has them.
SECTIONS: Mapping[str, Sequence[Row]] = {
    "Endpoints over HTTP": HTTP_ENDPOINTS,
    "Requests over HTTP": HTTP_REQUESTS,
    "Methods of gRPC": GRPC_ENDPOINTS,
    "Requests over gRPC": GRPC_REQUESTS,
}
