"""Requests of the Open Inference Protocol as bytes, and the tensors of answers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from benchmarks.serving.models import Arrays, tensors_of
from ortpkg.scale.serving import grpc_messages as messages

_LENGTH = b"\r\ninference-header-content-length:"


def http_request(address: str, model: str, inputs: Arrays, *, is_binary: bool = True) -> bytes:
    """A whole request over HTTP, its tensors in the binary form or as JSON."""
    tails = [array.tobytes() for array in inputs.values()] if is_binary else []
    tensors = tensors_of(inputs)
    for number, (tensor, array) in enumerate(zip(tensors, inputs.values(), strict=True)):
        if is_binary:
            tensor["parameters"] = {"binary_data_size": len(tails[number])}
        else:
            tensor["data"] = array.ravel().tolist()
    told: dict[str, Any] = {"inputs": tensors, "parameters": {"binary_data_output": is_binary}}
    head = json.dumps(told).encode()
    lines = [
        f"POST /v2/models/{model}/infer HTTP/1.1",
        f"Host: {address}",
        "Content-Type: application/" + ("octet-stream" if is_binary else "json"),
        f"Content-Length: {len(head) + sum(map(len, tails))}",
        *([f"Inference-Header-Content-Length: {len(head)}"] if is_binary else []),
    ]
    return b"\r\n".join([*(line.encode() for line in lines), b"", b"".join((head, *tails))])


def grpc_request(model: str, inputs: Arrays) -> bytes:
    """A ModelInferRequest with raw contents."""
    message = messages.ModelInferRequest(
        model_name=model,
        inputs=[messages.ModelInferRequest.InferInputTensor(**each) for each in tensors_of(inputs)],
        raw_input_contents=[array.tobytes() for array in inputs.values()],
    )
    return bytes(message.SerializeToString())


def first_output(answer: bytes, *, is_grpc: bool) -> np.ndarray[Any, Any]:
    """The numbers of the first output, a FP32 one."""
    if is_grpc:
        raw = messages.ModelInferResponse.FromString(answer).raw_output_contents[0]
        return np.frombuffer(raw, np.float32)
    head, _, body = answer.partition(b"\r\n\r\n")
    _, is_binary, rest = head.lower().partition(_LENGTH)
    if not is_binary:
        return np.array(json.loads(body)["outputs"][0]["data"], np.float32)
    end = int(rest.partition(b"\r\n")[0])
    nbytes = json.loads(body[:end])["outputs"][0]["parameters"]["binary_data_size"]
    return np.frombuffer(body[end : end + nbytes], np.float32)
