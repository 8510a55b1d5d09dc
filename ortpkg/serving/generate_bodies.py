"""Bodies of Triton's extension "generate": inputs and outputs as plain members of a JSON object.

A model that answers in rounds is streamed so: each round is an object of its own, sent as an event
of a ``text/event-stream``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ortpkg.errors import InvalidRequestError
from ortpkg.serving.protocol_bodies import check_json_carries, check_json_size, read_document
from ortpkg.serving.protocol_tensors import Array, GivenTensor
from ortpkg.serving.served_model import ServedModel

#: Members that are no inputs.
_RESERVED = frozenset({"id", "parameters"})
_DEEPEST = 64


def read_generate_body(
    body: bytes, model: ServedModel, read_json: Callable[[bytes], Any]
) -> tuple[str, list[GivenTensor]]:
    """The id of a request ("" where it has none) and its inputs, nobody has checked them yet.

    A value alone, or a list with fewer dimensions than the input has, gets sizes of 1 before it.

    Raises InvalidRequestError for what is no JSON object, and as
    :func:`~ortpkg.serving.protocol_bodies.read_document`.
    """
    document = read_document(body, read_json)
    if not isinstance(document, dict):
        raise InvalidRequestError("the request must be an object")
    identifier = document.get("id", "")
    if not isinstance(identifier, str):
        raise InvalidRequestError("id must be a text")
    given = [
        _given(name, value, model) for name, value in document.items() if name not in _RESERVED
    ]
    return identifier, given


def generate_answer(model: ServedModel, identifier: str, values: Mapping[str, Array]) -> Any:
    """The object that carries outputs; one of a single element is that element.

    Raises InvalidRequestError where JSON cannot carry one.
    """
    told: dict[str, Any] = {"id": identifier} if identifier else {}
    told.update(model_name=model.name, model_version=model.version)
    check_json_size(values.values())
    for spec in model.outputs:
        if spec.name in values:
            array = np.ascontiguousarray(values[spec.name])
            check_json_carries(array, spec)
            told[spec.name] = _plain(array)
    return told


def _plain(array: Array) -> Any:
    if array.size != 1:
        return array.tolist() if array.dtype.kind == "O" else array
    element = array.reshape(-1)[0]
    # A float32 as Python's float would have digits that nobody computed.
    return element if array.dtype.kind in "fO" else element.item()


def _given(name: str, value: Any, model: ServedModel) -> GivenTensor:
    spec = next((each for each in model.inputs if each.name == name), None)
    shape = _shape(value)
    data = value if shape else [value]
    rank = len(shape)
    if spec is not None and spec.shape is not None and len(spec.shape) > rank:
        rank = len(spec.shape)
        for _ in range(rank - max(len(shape), 1)):
            data = [data]
    return GivenTensor(
        name=name,
        datatype="" if spec is None else spec.datatype,
        shape=[1] * (rank - len(shape)) + shape,
        data=data,
    )


def _shape(value: Any) -> list[int]:
    """The sizes of nested lists, as their first elements tell them."""
    found: list[int] = []
    while isinstance(value, list) and len(found) <= _DEEPEST:
        found.append(len(value))
        if not value:
            break
        value = value[0]
    return found
