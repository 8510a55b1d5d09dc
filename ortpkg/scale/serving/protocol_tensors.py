"""Tensors of the Open Inference Protocol: those of a model, and those of a request."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.foundations.errors import InvalidFeedError, ModelError, RequestTooLargeError, quoted
from ortpkg.graph.declared_values import DeclaredValue, declared_element_type
from ortpkg.graph.types import ElementType, TensorType, numpy_dtype

Array = npt.NDArray[Any]

#: Name of each element type in the protocol; others are not supported.
_DATATYPES = {
    ElementType.BOOL: "BOOL",
    ElementType.UINT8: "UINT8",
    ElementType.UINT16: "UINT16",
    ElementType.UINT32: "UINT32",
    ElementType.UINT64: "UINT64",
    ElementType.INT8: "INT8",
    ElementType.INT16: "INT16",
    ElementType.INT32: "INT32",
    ElementType.INT64: "INT64",
    ElementType.FLOAT16: "FP16",
    ElementType.BFLOAT16: "BF16",
    ElementType.FLOAT: "FP32",
    ElementType.DOUBLE: "FP64",
    ElementType.STRING: "BYTES",
}
DTYPES: dict[str, np.dtype[Any]] = {
    datatype: numpy_dtype(element_type) for element_type, datatype in _DATATYPES.items()
}
#: JSON has no form for these that all clients read alike.
BINARY_ONLY = frozenset({"FP16", "BF16"})
VARIABLE = -1
#: Most texts of one request. Libraries copy all texts of a run in one call, during which nobody
#: else is answered: some 0.4 s for this number on a busy machine.
MOST_TEXTS = 1 << 20
_MOST_DIMENSIONS = 64
#: Largest size of an array with sizes of 0 taken as 1, which numpy must be able to compute.
_MOST_NBYTES = 1 << 62
_MOST_SHOWN = 8
#: Elements per C call, during which no other thread runs.
_BLOCK = 10_000
_LENGTH = struct.Struct("<I")
_VALUE_KINDS: dict[str, frozenset[type]] = {
    "b": frozenset({bool}),
    "i": frozenset({int}),
    "u": frozenset({int}),
    "f": frozenset({int, float}),
    "O": frozenset({str, bytes}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """Input or output in terms of the protocol.

    Attributes:
        name: Name in the model.
        datatype: "FP32", "BYTES", ...
        shape: Size or -1 (any) for each dimension; None if even the rank is unknown.
    """

    name: str
    datatype: str
    shape: tuple[int, ...] | None

    @property
    def stated_shape(self) -> list[int]:
        """Shape for metadata: [-1] if the rank is unknown."""
        return [VARIABLE] if self.shape is None else list(self.shape)

    @property
    def metadata(self) -> dict[str, Any]:
        """Entry of the metadata of a model: name, datatype and shape."""
        return {"name": self.name, "datatype": self.datatype, "shape": self.stated_shape}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTensor:
    """Unverified input of a request.

    ``data`` is its bytes in row-major order, little-endian, or a list of its values, flat or
    nested.
    """

    name: str
    datatype: str
    shape: Sequence[int]
    data: bytes | memoryview | list[Any]


def spec_of(declared: DeclaredValue) -> TensorSpec:
    """Return the protocol's description of ``declared``.

    Raises:
        ModelError: The protocol cannot carry it: sequences, maps, sparse tensors, types of few
            bits.
    """
    element_type = declared_element_type(declared.type)
    if element_type not in _DATATYPES:
        raise ModelError(
            f"{quoted(declared.name)} is {quoted(declared.type)}, for which the Open Inference"
            " Protocol has no datatype: this model cannot be served"
        )
    shape = declared.shape
    value_type = getattr(declared, "value_type", None)
    if isinstance(value_type, TensorType) and value_type.shape is None:
        shape = None  # in that case a NodeArg's shape is empty
    sizes = (size if isinstance(size, int) else VARIABLE for size in shape or ())
    return TensorSpec(
        name=declared.name,
        datatype=_DATATYPES[element_type],
        shape=None if shape is None else tuple(sizes),
    )


def read_tensor(
    request_tensor: RequestTensor, spec: TensorSpec, most_texts: int = MOST_TEXTS
) -> Array:
    """Return the array of a request's tensor; from bytes it is a read-only view.

    Raises:
        InvalidFeedError: Datatype, rank, sizes, number of elements or a value does not fit
            ``spec``; the error names the input.
        RequestTooLargeError: The tensor has more than ``most_texts`` texts.
    """
    if request_tensor.datatype != spec.datatype:
        raise _wrong(spec, "datatype", spec.datatype, quoted(request_tensor.datatype))
    shape = _checked_shape(request_tensor, spec)
    count = math.prod(shape)
    if spec.datatype == "BYTES" and count > most_texts:
        raise RequestTooLargeError(
            f"input {quoted(spec.name)} brings the request's texts to more than the {MOST_TEXTS}"
            " that it may have: send them in several requests"
        )
    if isinstance(request_tensor.data, list):
        return _array_of_values(request_tensor.data, spec, shape, count)
    if spec.datatype == "BYTES":
        return _array_of_texts(_texts(request_tensor.data, spec, count), shape)
    dtype = DTYPES[spec.datatype]
    expected, actual = count * dtype.itemsize, len(request_tensor.data)
    if actual != expected:
        raise _wrong(spec, "size", f"{expected} bytes for shape {list(shape)}", f"{actual} bytes")
    return np.frombuffer(request_tensor.data, dtype).reshape(shape)


def raw_parts(array: Array, datatype: str) -> list[bytes | memoryview]:
    """Return an array's elements in the protocol's binary form, in parts to be joined.

    Numbers are views of the array, so that joining makes the only copy.
    """
    if datatype != "BYTES":
        numbers = array.astype(array.dtype.newbyteorder("<"), copy=False)
        return [np.ascontiguousarray(numbers).reshape(-1).view(np.uint8).data]
    flat = array.reshape(-1)
    return [
        _raw_texts(flat[start : start + _BLOCK].tolist()) for start in range(0, flat.size, _BLOCK)
    ]


def _raw_texts(values: list[Any]) -> bytes:
    if set(map(type, values)) == {str}:
        encoded = list(map(str.encode, values))
    else:
        encoded = [value if isinstance(value, bytes) else str(value).encode() for value in values]
    lengths = map(_LENGTH.pack, map(len, encoded))
    return b"".join(chain.from_iterable(zip(lengths, encoded, strict=True)))


def _checked_shape(tensor: RequestTensor, spec: TensorSpec) -> tuple[int, ...]:
    shape = tensor.shape
    if len(shape) > _MOST_DIMENSIONS:
        raise _wrong(spec, "shape", f"at most {_MOST_DIMENSIONS} dimensions", f"{len(shape)}")
    if any(type(size) is not int or size < 0 for size in shape):
        raise _wrong(spec, "shape", "a list of whole numbers from 0 on", _shown(shape))
    if math.prod(size or 1 for size in shape) * DTYPES[spec.datatype].itemsize > _MOST_NBYTES:
        raise _wrong(spec, "shape", "one that memory can have", _shown(shape))
    expected = spec.shape
    if expected is None:
        return tuple(shape)
    if len(shape) != len(expected) or any(
        wanted not in (VARIABLE, size) for wanted, size in zip(expected, shape, strict=True)
    ):
        raise _wrong(spec, "shape", str(list(expected)), _shown(shape))
    return tuple(shape)


def _array_of_values(
    values: list[Any], spec: TensorSpec, shape: tuple[int, ...], count: int
) -> Array:
    if spec.datatype in BINARY_ONLY:
        raise _wrong(spec, "data", "binary data", "a list of values, which cannot carry it")
    flat = _flat(values, spec, shape, count)
    dtype = DTYPES[spec.datatype]
    kinds = _VALUE_KINDS[dtype.kind]
    strange = sorted(kind.__name__ for kind in _kinds_of(flat) - kinds)
    if strange:
        wanted = "text" if dtype.kind == "O" else f"{spec.datatype} values"
        raise _wrong(spec, "data", wanted, f"{', '.join(strange)} among them")
    if dtype.kind == "O":
        return _array_of_texts([_text(value, spec) for value in flat], shape)
    array = np.empty(count, dtype)
    try:
        with np.errstate(over="raise"):
            for start, block in _blocks(flat):
                array[start : start + _BLOCK] = np.array(block, dtype)
    except (OverflowError, FloatingPointError):
        raise _wrong(spec, "data", f"values of {spec.datatype}", "one out of its range") from None
    return array.reshape(shape)


def _flat(values: list[Any], spec: TensorSpec, shape: tuple[int, ...], count: int) -> list[Any]:
    """Return the values in row-major order, whether they are nested like ``shape`` or flat."""
    if list not in _kinds_of(values):
        if len(values) != count:
            raise _wrong(spec, "data", f"{count} values for {list(shape)}", f"{len(values)} values")
        return values
    level: list[Any] = [values]
    for axis, size in enumerate(shape):
        if any(type(part) is not list or len(part) != size for part in level):
            raise _wrong(
                spec, "data", f"lists nested as {list(shape)}", f"others in dimension {axis}"
            )
        level = list(chain.from_iterable(level))
    return level  # any lists in it are values of the wrong kind


def _texts(data: bytes | memoryview, spec: TensorSpec, count: int) -> list[str]:
    """Return the elements of BYTES data, each preceded by its length."""
    raw = bytes(data)  # slicing bytes takes a third of the time of slicing a view
    texts: list[str] = []
    offset, end = 0, len(raw)
    if count * _LENGTH.size > end:
        raise _wrong(spec, "size", f"{count} texts with their lengths", f"{end} bytes")
    length_at, add = _LENGTH.unpack_from, texts.append
    for number in range(count):
        start = offset + _LENGTH.size
        if start > end:
            break
        (length,) = length_at(raw, offset)
        if length > end - start:
            raise _wrong(spec, "data", f"at most {end - start} bytes of text {number}", str(length))
        offset = start + length
        try:
            add(raw[start:offset].decode())
        except UnicodeDecodeError as error:
            raise _no_text(error, spec) from None
    if offset != end or len(texts) != count:
        raise _wrong(
            spec, "data", f"{count} texts", f"{len(texts)} texts and {end - offset} bytes more"
        )
    return texts


def _text(element: str | bytes, spec: TensorSpec) -> str:
    try:
        return element if isinstance(element, str) else element.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _no_text(error, spec) from None


def _no_text(error: UnicodeDecodeError, spec: TensorSpec) -> InvalidFeedError:
    byte = error.object[error.start]
    return _wrong(spec, "data", "text in UTF-8", f"a byte 0x{byte:02x} in it")


def _array_of_texts(texts: list[str], shape: tuple[int, ...]) -> Array:
    array = np.empty(len(texts), object)
    for start, block in _blocks(texts):
        array[start : start + _BLOCK] = block
    return array.reshape(shape)


def _kinds_of(values: list[Any]) -> set[type]:
    return {kind for _, block in _blocks(values) for kind in {*map(type, block)}}


def _blocks(values: list[Any]) -> Iterator[tuple[int, list[Any]]]:
    """Yield parts of ``values``, each with its start."""
    for start in range(0, len(values), _BLOCK):
        yield start, values[start : start + _BLOCK]


def _shown(shape: Sequence[Any]) -> str:
    more = ", ..." if len(shape) > _MOST_SHOWN else ""
    return quoted(f"[{', '.join(str(size)[:20] for size in shape[:_MOST_SHOWN])}{more}]")


def _wrong(spec: TensorSpec, what: str, expected: str, actual: str) -> InvalidFeedError:
    return InvalidFeedError(
        f"input {quoted(spec.name)}: its {what} must be {expected}, not {actual}",
        name=spec.name,
        expected=expected,
        actual=actual,
    )
