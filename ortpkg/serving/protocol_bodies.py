"""Bodies of the Open Inference Protocol over HTTP: JSON, and tensors in binary after it.

The binary form is that of Triton's extension "binary_tensor_data": the header
``Inference-Header-Content-Length`` says where the JSON ends, and each tensor how many bytes it has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ortpkg.errors import InvalidRequestError, RequestTooLargeError, quoted
from ortpkg.serving.protocol_tensors import (
    BINARY_ONLY,
    Array,
    GivenTensor,
    TensorSpec,
    raw_parts,
)

JSON_LENGTH_HEADER = "inference-header-content-length"
#: Of a request's JSON, and values of an answer's. Libraries read and write JSON in one call, which
#: takes some 0.6 s for as much on a busy machine; meanwhile nobody else is answered.
MOST_JSON_VALUES = 1 << 22
#: A list, an object or a member of one takes as long as so many plain values.
_NESTED_VALUES = 16
_BLOCK_NBYTES = 1 << 20
_SIZE = "binary_data_size"
_Text = TypeVar("_Text", bytes, memoryview)
_KINDS: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    type(None): "null or missing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedOutput:
    """An output that a request names; ``is_binary``: in the binary form, None: as all others."""

    name: str
    is_binary: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceBody:
    """A request as its client wrote it.

    Attributes:
        id: the client's own; "" where it gave none.
        inputs: unchecked.
        outputs: those that are asked for; none: all.
        is_binary: whether outputs that say nothing themselves are in the binary form.
    """

    id: str = ""
    inputs: tuple[GivenTensor, ...]
    outputs: tuple[RequestedOutput, ...] = ()
    is_binary: bool = False

    @property
    def output_names(self) -> tuple[str, ...]:
        """The outputs that are asked for; none: all."""
        return tuple(each.name for each in self.outputs)

    def is_binary_output(self, name: str) -> bool:
        """Whether that output is to be in the binary form."""
        stated = next((each.is_binary for each in self.outputs if each.name == name), None)
        return self.is_binary if stated is None else stated


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseBody:
    """An answer: JSON with arrays in it, and what follows it in binary.

    Attributes:
        head: the JSON object; values of tensors are arrays of one dimension.
        tails: the binary tensors in order.
    """

    head: dict[str, Any]
    tails: tuple[bytes | memoryview, ...] = field(repr=False)


def read_body(
    body: bytes, json_length: str | None, read_json: Callable[[bytes | memoryview], Any]
) -> InferenceBody:
    """A request's body.

    Args:
        body: all of it.
        json_length: the header that says where its JSON ends; None: all of it is JSON.
        read_json: raises ValueError for what is none.

    Raises InvalidRequestError, which says where, for what is not as the protocol has it, and
    RequestTooLargeError for more than MOST_JSON_VALUES.
    """
    end = _json_end(json_length, len(body))
    view = memoryview(body)
    document = _object(read_document(view[:end], read_json), "the request")
    parameters = _object(document.get("parameters") or {}, "parameters")
    tails = _Tails(view[end:])
    inputs = tuple(
        _input(each, f"inputs[{place}]", tails)
        for place, each in enumerate(_list(document.get("inputs"), "inputs"))
    )
    tails.check_end()
    identifier = document.get("id")
    return InferenceBody(
        id="" if identifier is None else _text(identifier, "id"),
        inputs=inputs,
        outputs=tuple(
            _output(each, f"outputs[{place}]")
            for place, each in enumerate(_list(document.get("outputs") or [], "outputs"))
        ),
        is_binary=_flag(parameters.get("binary_data_output", False), "binary_data_output"),
    )


def read_document(text: _Text, read_json: Callable[[_Text], Any]) -> Any:
    """Return the value of a JSON text; ``read_json`` raises ValueError for a wrong one.

    Raises InvalidRequestError for a text that is no JSON, and RequestTooLargeError for more than
    MOST_JSON_VALUES values. Their separators are counted, also those inside of texts.
    """
    if _counted_values(text) > MOST_JSON_VALUES:
        raise RequestTooLargeError(
            f"the request's JSON has more than {MOST_JSON_VALUES} values, of which a list, an"
            f" object or a member counts as {_NESTED_VALUES}: send tensors in binary, or in"
            " several requests"
        )
    try:
        return read_json(text)
    except ValueError as error:
        raise InvalidRequestError(f"the request is no JSON: {error}") from error


def _counted_values(text: bytes | memoryview) -> int:
    """Return an upper bound of the values of a JSON text; of a short text not a close one."""
    if len(text) * _NESTED_VALUES <= MOST_JSON_VALUES:
        return len(text)
    count = 0
    data = np.frombuffer(text, np.uint8)
    for start in range(0, data.size, _BLOCK_NBYTES):  # numpy lets other threads go on
        block = data[start : start + _BLOCK_NBYTES]
        count += int(np.count_nonzero(block == ord(",")))
        count += _NESTED_VALUES * sum(int(np.count_nonzero(block == ord(sign))) for sign in "[{:")
    return count


def response_body(
    request: InferenceBody,
    model_name: str,
    model_version: str,
    specs: Sequence[TensorSpec],
    values: Mapping[str, Array],
) -> ResponseBody:
    """The answer to ``request``; its outputs are ``specs``.

    Raises InvalidRequestError where JSON cannot carry an output that is to be in JSON.
    """
    outputs: list[dict[str, Any]] = []
    tails: list[bytes | memoryview] = []
    check_json_size(values[spec.name] for spec in specs if not request.is_binary_output(spec.name))
    for spec in specs:
        array = values[spec.name]
        told: dict[str, Any] = {
            "name": spec.name,
            "datatype": spec.datatype,
            "shape": list(array.shape),
        }
        if request.is_binary_output(spec.name):
            parts = raw_parts(array, spec.datatype)
            told["parameters"] = {_SIZE: sum(map(len, parts))}
            tails += parts
        else:
            told["data"] = _json_values(array, spec)
        outputs.append(told)
    head: dict[str, Any] = {"model_name": model_name, "model_version": model_version}
    if request.id:
        head["id"] = request.id
    return ResponseBody(head={**head, "outputs": outputs}, tails=tuple(tails))


def check_json_size(arrays: Iterable[Array]) -> None:
    """Raise InvalidRequestError if an answer would have more values in JSON than it may."""
    count = sum(array.size for array in arrays)
    if count > MOST_JSON_VALUES:
        raise InvalidRequestError(
            f"the answer has {count} values in JSON, which may have {MOST_JSON_VALUES}: ask for"
            " outputs with binary_data"
        )


def check_json_carries(array: Array, spec: TensorSpec) -> None:
    """Raises InvalidRequestError where ``array`` has no form in JSON that everybody reads alike."""
    if spec.datatype in BINARY_ONLY:
        raise InvalidRequestError(
            f"output {quoted(spec.name)} is {spec.datatype}, which JSON cannot carry: ask for it"
            " with binary_data"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InvalidRequestError(
            f"output {quoted(spec.name)} has values that are not finite, which JSON cannot carry:"
            " ask for it with binary_data"
        )


def _json_values(array: Array, spec: TensorSpec) -> Any:
    check_json_carries(array, spec)
    flat = np.ascontiguousarray(array).reshape(-1)
    if array.dtype.kind != "O":
        return flat
    return [each if isinstance(each, str) else str(each) for each in flat.tolist()]


class _Tails:
    """The binary tensors of a request, taken off one after the other."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._place = 0

    def take(self, nbytes: int, where: str) -> memoryview:
        left = len(self._view) - self._place
        if nbytes > left:
            raise InvalidRequestError(
                f"{where}: {_SIZE} is {nbytes}, and the request has {left} bytes left"
            )
        self._place += nbytes
        return self._view[self._place - nbytes : self._place]

    def check_end(self) -> None:
        left = len(self._view) - self._place
        if left:
            raise InvalidRequestError(f"the request has {left} bytes that belong to no input")


def _json_end(json_length: str | None, nbytes: int) -> int:
    if json_length is None:
        return nbytes
    if re.fullmatch("[0-9]{1,18}", json_length) is None or int(json_length) > nbytes:
        raise InvalidRequestError(
            "the header Inference-Header-Content-Length must be the size of the JSON, at most"
            f" the {nbytes} bytes of the request, not {quoted(json_length)}"
        )
    return int(json_length)


def _input(each: Any, where: str, tails: _Tails) -> GivenTensor:
    told = _object(each, where)
    name = _text(told.get("name"), f"{where}.name")
    parameters = _object(told.get("parameters") or {}, f"{where}.parameters")
    data, size = told.get("data"), parameters.get(_SIZE)
    if (data is None) is (size is None):
        raise InvalidRequestError(
            f"{where}: input {quoted(name)} needs either data or the parameter {_SIZE}"
        )
    if size is not None and (type(size) is not int or size < 0):
        raise InvalidRequestError(f"{where}: {_SIZE} must be a whole number from 0 on")
    return GivenTensor(
        name=name,
        datatype=_text(told.get("datatype"), f"{where}.datatype"),
        shape=_list(told.get("shape"), f"{where}.shape"),
        data=_list(data, f"{where}.data") if size is None else tails.take(size, where),
    )


def _output(each: Any, where: str) -> RequestedOutput:
    told = _object(each, where)
    parameters = _object(told.get("parameters") or {}, f"{where}.parameters")
    if parameters.get("classification"):
        raise InvalidRequestError(f"{where}: classification is not supported")
    stated = parameters.get("binary_data")
    return RequestedOutput(
        name=_text(told.get("name"), f"{where}.name"),
        is_binary=None if stated is None else _flag(stated, f"{where}: binary_data"),
    )


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequestError(f"{where} must be an object, not {_kind(value)}")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidRequestError(f"{where} must be a list, not {_kind(value)}")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InvalidRequestError(f"{where} must be a text, not {_kind(value)}")
    return value


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidRequestError(f"{where} must be true or false, not {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    """Return what JSON calls a value of this type."""
    return _KINDS.get(type(value), "a number")
