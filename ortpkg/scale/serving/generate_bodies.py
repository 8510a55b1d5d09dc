"""Bodies of Triton's extension "generate": inputs and outputs as members of a JSON object.

A model that answers in rounds is streamed: each round is one object, sent as an event of a
``text/event-stream``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ortpkg.foundations.errors import InvalidRequestError
from ortpkg.scale.serving.protocol_bodies import check_json_carries, check_json_size, read_document
from ortpkg.scale.serving.protocol_tensors import Array, RequestTensor
from ortpkg.scale.serving.served_model import ServedModel

#: Members that are not inputs.
_RESERVED = frozenset({"id", "parameters"})
_DEEPEST = 64


def read_generate_body(
    body: bytes, model: ServedModel, read_json: Callable[[bytes], Any]
) -> tuple[str, list[RequestTensor]]:
    """Return the id of a request ("" without one) and its unverified inputs.

    A single value, or a list with fewer dimensions than the input, gets leading dimensions of size
    1.

    Raises:
        InvalidRequestError: The body is not a JSON object; see
            :func:`~ortpkg.scale.serving.protocol_bodies.read_document`.
    """
    document = read_document(body, read_json)
    if not isinstance(document, dict):
        raise InvalidRequestError("the request must be an object")
    identifier = document.get("id", "")
    if not isinstance(identifier, str):
        raise InvalidRequestError("id must be a text")
    tensors = [
        _request_tensor(name, value, model)
        for name, value in document.items()
        if name not in _RESERVED
    ]
    return identifier, tensors


def generate_answer(model: ServedModel, identifier: str, values: Mapping[str, Array]) -> Any:
    """Return the object with the outputs; a single element is sent as that element.

    Raises:
        InvalidRequestError: JSON cannot carry an output.
    """
    members: dict[str, Any] = {"id": identifier} if identifier else {}
    members.update(model_name=model.name, model_version=model.version)
    check_json_size(values.values())
    for spec in model.outputs:
        if spec.name in values:
            array = np.ascontiguousarray(values[spec.name])
            check_json_carries(array, spec)
            members[spec.name] = _plain(array)
    return members


def _plain(array: Array) -> Any:
    if array.size != 1:
        return array.tolist() if array.dtype.kind == "O" else array
    element = array.reshape(-1)[0]
    # As a Python float, a float32 would show digits that nobody computed.
    return element if array.dtype.kind in "fO" else element.item()


def _request_tensor(name: str, value: Any, model: ServedModel) -> RequestTensor:
    spec = next((tensor_spec for tensor_spec in model.inputs if tensor_spec.name == name), None)
    shape = _shape(value)
    data = value if shape else [value]
    rank = len(shape)
    if spec is not None and spec.shape is not None and len(spec.shape) > rank:
        rank = len(spec.shape)
        for _ in range(rank - max(len(shape), 1)):
            data = [data]
    return RequestTensor(
        name=name,
        datatype="" if spec is None else spec.datatype,
        shape=[1] * (rank - len(shape)) + shape,
        data=data,
    )


def _shape(value: Any) -> list[int]:
    """Return the sizes of nested lists, judged by their first elements."""
    sizes: list[int] = []
    while isinstance(value, list) and len(sizes) <= _DEEPEST:
        sizes.append(len(value))
        if not value:
            break
        value = value[0]
    return sizes
