"""Tensors of the Open Inference Protocol: what a model takes and gives, and what a request brings.

Nothing of a request's size is allocated before its sizes are known to agree with each other, with
the model, and with the bytes that really came.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.errors import InvalidFeedError, ModelError, RequestTooLargeError, quoted
from ortpkg.graph.declared_values import DeclaredValue, declared_element_type
from ortpkg.graph.types import ElementType, TensorType, numpy_dtype

Array = npt.NDArray[Any]

#: Element type → the protocol's word for it. What is not here cannot travel.
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
#: JSON has no form for these that everybody reads alike.
BINARY_ONLY = frozenset({"FP16", "BF16"})
VARIABLE = -1
#: Texts of one request. Libraries copy all texts of a run in one call, which takes some 0.4 s for
#: as many on a busy machine; meanwhile nobody else is answered.
MOST_TEXTS = 1 << 20
_MOST_DIMENSIONS = 64
#: Of an array whose sizes of 0 are taken for 1, which numpy wants to be able to count.
_MOST_NBYTES = 1 << 62
_MOST_SHOWN = 8
#: Elements per call of C: during one over a whole large tensor, no other thread would run.
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
    """An input or output in the protocol's words.

    Attributes:
        name: the model's own.
        datatype: "FP32", "BYTES", ...
        shape: a size or -1 (any) per dimension; None where not even the rank is known.
    """

    name: str
    datatype: str
    shape: tuple[int, ...] | None

    @property
    def stated_shape(self) -> list[int]:
        """The shape as metadata has it: [-1] where the rank is not known."""
        return [VARIABLE] if self.shape is None else list(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenTensor:
    """An input as a request brings it; nobody has checked it yet.

    ``data``: its bytes in row-major order, little-endian, or a list of its values, flat or nested.
    """

    name: str
    datatype: str
    shape: Sequence[int]
    data: bytes | memoryview | list[Any]


def spec_of(declared: DeclaredValue) -> TensorSpec:
    """What the protocol says of ``declared``.

    Raises ModelError for what cannot travel: sequences, maps, sparse tensors, types of few bits.
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
        shape = None  # a NodeArg's own is empty then
    sizes = (size if isinstance(size, int) else VARIABLE for size in shape or ())
    return TensorSpec(
        name=declared.name,
        datatype=_DATATYPES[element_type],
        shape=None if shape is None else tuple(sizes),
    )


def read_tensor(
    request_tensor: GivenTensor, spec: TensorSpec, most_texts: int = MOST_TEXTS
) -> Array:
    """The array that ``given`` is; that of bytes is a view of them, read-only.

    Raises InvalidFeedError, which names the input, where its datatype, rank, sizes, count of
    elements or a value is not what ``spec`` says, and RequestTooLargeError for a tensor of more
    than ``most_texts`` texts.
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
    """Return an array's elements as the protocol's binary form has them, in parts to be joined.

    Numbers are views of the array, so that whoever joins them has the only copy.
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


def _checked_shape(given: GivenTensor, spec: TensorSpec) -> tuple[int, ...]:
    shape = given.shape
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
        return _array_of_texts([_text(each, spec) for each in flat], shape)
    array = np.empty(count, dtype)
    try:
        with np.errstate(over="raise"):
            for start, block in _blocks(flat):
                array[start : start + _BLOCK] = np.array(block, dtype)
    except (OverflowError, FloatingPointError):
        raise _wrong(spec, "data", f"values of {spec.datatype}", "one out of its range") from None
    return array.reshape(shape)


def _flat(values: list[Any], spec: TensorSpec, shape: tuple[int, ...], count: int) -> list[Any]:
    """The values in row-major order, whether they are nested as ``shape`` says or flat."""
    if list not in _kinds_of(values):
        if len(values) != count:
            raise _wrong(spec, "data", f"{count} values for {list(shape)}", f"{len(values)} values")
        return values
    level: list[Any] = [values]
    for axis, size in enumerate(shape):
        if any(type(each) is not list or len(each) != size for each in level):
            raise _wrong(
                spec, "data", f"lists nested as {list(shape)}", f"others in dimension {axis}"
            )
        level = list(chain.from_iterable(level))
    return level  # lists in it are values of the wrong kind


def _texts(data: bytes | memoryview, spec: TensorSpec, count: int) -> list[str]:
    """The elements of BYTES data: each has its length before it."""
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
    """Parts of ``values``, each with its start."""
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
