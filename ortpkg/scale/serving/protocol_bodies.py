"""HTTP bodies of the Open Inference Protocol: JSON, followed by tensors in binary form.

The binary form is Triton's extension "binary_tensor_data": the header
``Inference-Header-Content-Length`` says where the JSON ends, and each tensor states its size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ortpkg.foundations.errors import InvalidRequestError, RequestTooLargeError, quoted
from ortpkg.scale.serving.protocol_tensors import (
    BINARY_ONLY,
    Array,
    RequestTensor,
    TensorSpec,
    raw_parts,
)

JSON_LENGTH_HEADER = "inference-header-content-length"
#: Most values in the JSON of a request or an answer. Libraries read and write JSON in one call,
#: during which nobody else is answered: some 0.6 s for this number on a busy machine.
MOST_JSON_VALUES = 1 << 22
#: Number of plain values that take as long as a list, an object or a member.
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
    """Output that a request names; ``is_binary`` is None if it does not choose a form."""

    name: str
    is_binary: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceBody:
    """Request as its client wrote it.

    Attributes:
        id: The client's id, or "".
        inputs: Unverified inputs.
        outputs: Requested outputs; none for all.
        is_binary: True if outputs that do not choose a form are binary.
    """

    id: str = ""
    inputs: tuple[RequestTensor, ...]
    outputs: tuple[RequestedOutput, ...] = ()
    is_binary: bool = False

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the requested outputs; none for all."""
        return tuple(output.name for output in self.outputs)

    def is_binary_output(self, name: str) -> bool:
        """Return True if that output is to be in binary form."""
        choice = next((output.is_binary for output in self.outputs if output.name == name), None)
        return self.is_binary if choice is None else choice


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseBody:
    """Answer: JSON with arrays in it, and the binary tensors after it.

    Attributes:
        head: The JSON object; values of tensors are arrays of one dimension.
        tails: The binary tensors in order.
    """

    head: dict[str, Any]
    tails: tuple[bytes | memoryview, ...] = field(repr=False)


def read_body(
    body: bytes, json_length: str | None, read_json: Callable[[bytes | memoryview], Any]
) -> InferenceBody:
    """Parse a request's body.

    Args:
        body: The whole body.
        json_length: Header with the length of the JSON; None if all of it is JSON.
        read_json: JSON parser, which raises ValueError.

    Raises:
        InvalidRequestError: The body breaks the protocol; the message says where.
        RequestTooLargeError: There are more than MOST_JSON_VALUES values.
    """
    end = _json_end(json_length, len(body))
    view = memoryview(body)
    document = _object(read_document(view[:end], read_json), "the request")
    parameters = _object(document.get("parameters") or {}, "parameters")
    tails = _Tails(view[end:])
    inputs = tuple(
        _input(item, f"inputs[{index}]", tails)
        for index, item in enumerate(_list(document.get("inputs"), "inputs"))
    )
    tails.check_end()
    identifier = document.get("id")
    return InferenceBody(
        id="" if identifier is None else _text(identifier, "id"),
        inputs=inputs,
        outputs=tuple(
            _output(item, f"outputs[{index}]")
            for index, item in enumerate(_list(document.get("outputs") or [], "outputs"))
        ),
        is_binary=_flag(parameters.get("binary_data_output", False), "binary_data_output"),
    )


def read_document(text: _Text, read_json: Callable[[_Text], Any]) -> Any:
    """Parse a JSON text; ``read_json`` raises ValueError for a wrong one.

    Raises:
        InvalidRequestError: The text is not JSON.
        RequestTooLargeError: There are more than MOST_JSON_VALUES values; separators are counted,
            also those inside of texts.
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
    """Return an upper bound of the values of a JSON text, which is loose for short texts."""
    if len(text) * _NESTED_VALUES <= MOST_JSON_VALUES:
        return len(text)
    count = 0
    data = np.frombuffer(text, np.uint8)
    for start in range(0, data.size, _BLOCK_NBYTES):  # numpy lets other threads run
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
    """Return the answer to ``request`` with the outputs ``specs``.

    Raises:
        InvalidRequestError: JSON cannot carry an output that is to be in JSON.
    """
    outputs: list[dict[str, Any]] = []
    tails: list[bytes | memoryview] = []
    check_json_size(values[spec.name] for spec in specs if not request.is_binary_output(spec.name))
    for spec in specs:
        array = values[spec.name]
        fields: dict[str, Any] = {
            "name": spec.name,
            "datatype": spec.datatype,
            "shape": list(array.shape),
        }
        if request.is_binary_output(spec.name):
            parts = raw_parts(array, spec.datatype)
            fields["parameters"] = {_SIZE: sum(map(len, parts))}
            tails += parts
        else:
            fields["data"] = _json_values(array, spec)
        outputs.append(fields)
    head: dict[str, Any] = {"model_name": model_name, "model_version": model_version}
    if request.id:
        head["id"] = request.id
    return ResponseBody(head={**head, "outputs": outputs}, tails=tuple(tails))


def check_json_size(arrays: Iterable[Array]) -> None:
    """Raise InvalidRequestError if an answer would have too many values in JSON."""
    count = sum(array.size for array in arrays)
    if count > MOST_JSON_VALUES:
        raise InvalidRequestError(
            f"the answer has {count} values in JSON, which may have {MOST_JSON_VALUES}: ask for"
            " outputs with binary_data"
        )


def check_json_carries(array: Array, spec: TensorSpec) -> None:
    """Raise InvalidRequestError if ``array`` has no form in JSON that all clients read alike."""
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
    return [value if isinstance(value, str) else str(value) for value in flat.tolist()]


class _Tails:
    """Binary tensors of a request, taken one after the other."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._offset = 0

    def take(self, nbytes: int, where: str) -> memoryview:
        left = len(self._view) - self._offset
        if nbytes > left:
            raise InvalidRequestError(
                f"{where}: {_SIZE} is {nbytes}, and the request has {left} bytes left"
            )
        self._offset += nbytes
        return self._view[self._offset - nbytes : self._offset]

    def check_end(self) -> None:
        left = len(self._view) - self._offset
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


def _input(value: Any, where: str, tails: _Tails) -> RequestTensor:
    tensor = _object(value, where)
    name = _text(tensor.get("name"), f"{where}.name")
    parameters = _object(tensor.get("parameters") or {}, f"{where}.parameters")
    data, size = tensor.get("data"), parameters.get(_SIZE)
    if (data is None) is (size is None):
        raise InvalidRequestError(
            f"{where}: input {quoted(name)} needs either data or the parameter {_SIZE}"
        )
    if size is not None and (type(size) is not int or size < 0):
        raise InvalidRequestError(f"{where}: {_SIZE} must be a whole number from 0 on")
    return RequestTensor(
        name=name,
        datatype=_text(tensor.get("datatype"), f"{where}.datatype"),
        shape=_list(tensor.get("shape"), f"{where}.shape"),
        data=_list(data, f"{where}.data") if size is None else tails.take(size, where),
    )


def _output(value: Any, where: str) -> RequestedOutput:
    output = _object(value, where)
    parameters = _object(output.get("parameters") or {}, f"{where}.parameters")
    if parameters.get("classification"):
        raise InvalidRequestError(f"{where}: classification is not supported")
    choice = parameters.get("binary_data")
    return RequestedOutput(
        name=_text(output.get("name"), f"{where}.name"),
        is_binary=None if choice is None else _flag(choice, f"{where}: binary_data"),
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
    """Return the JSON name of a value's type."""
    return _KINDS.get(type(value), "a number")
