"""Inputs and outputs of a session as JSON and raw bytes, to pass them between processes.

Handles tensors of every element type, sequences, maps and absent values. The receiver owns the
memory of what it gets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from ortpkg.foundations.errors import RunError, quoted
from ortpkg.foundations.isolation.worker import Buffer
from ortpkg.graph.types import ElementType, element_type_of, numpy_dtype
from ortpkg.runtime.kernels.op_kernel import Value

_NONE, _TENSOR, _TEXTS, _LIST, _MAP, _PLAIN = "none", "tensor", "texts", "list", "map", "plain"


def pack_values(values: Sequence[Value]) -> tuple[list[Any], list[Buffer]]:
    """Return a description of each value, and the buffers that the descriptions refer to.

    Raises:
        RunError: a value cannot be passed to another process.
    """
    buffers: list[Buffer] = []
    return [_packed(value, buffers) for value in values], buffers


def unpack_values(described: Sequence[Any], buffers: Sequence[Buffer]) -> list[Value]:
    """Return the values; ValueError if descriptions and buffers do not match."""
    source = iter(buffers)
    return [_unpacked(description, source) for description in described]


def _packed(value: Value, buffers: list[Buffer]) -> list[Any]:
    if value is None:
        return [_NONE]
    if isinstance(value, list | tuple):
        return [_LIST, [_packed(element, buffers) for element in value]]
    if isinstance(value, dict):
        return [_MAP, [[key, _packed(element, buffers)] for key, element in value.items()]]
    if isinstance(value, np.ndarray | np.generic):
        return _packed_tensor(np.asarray(value), buffers)
    if isinstance(value, str | int | float):
        return [_PLAIN, value]
    raise RunError(
        f"a value of type {quoted(type(value).__name__)} cannot cross into the child process of the"
        " session"
    )


def _packed_tensor(array: np.ndarray[Any, Any], buffers: list[Buffer]) -> list[Any]:
    if array.dtype.kind in "OUS":
        buffers.append(json.dumps([_text_of(text) for text in array.reshape(-1)]).encode())
        return [_TEXTS, list(array.shape)]
    try:
        element_type = element_type_of(array.dtype.newbyteorder("="))
    except KeyError:
        raise RunError(
            f"an array of {array.dtype} cannot cross into the child process of the session"
        ) from None
    plain = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    buffers.append(plain.reshape(-1).view(np.uint8).data if plain.size else b"")
    return [_TENSOR, list(array.shape), int(element_type)]


def _unpacked(described: Sequence[Any], buffers: Iterator[Buffer]) -> Value:
    kind, *rest = described
    if kind == _NONE:
        return None
    if kind == _PLAIN:
        return rest[0]
    if kind == _LIST:
        return [_unpacked(element, buffers) for element in rest[0]]
    if kind == _MAP:
        return {key: _unpacked(element, buffers) for key, element in rest[0]}
    shape = tuple(rest[0])
    data = next(buffers)
    if kind == _TEXTS:
        texts = np.empty(prod(shape), dtype=object)
        texts[:] = json.loads(bytes(data))
        return texts.reshape(shape)
    dtype = numpy_dtype(ElementType(rest[1]))
    return np.frombuffer(data, dtype, prod(shape)).reshape(shape)


def _text_of(text: Any) -> str:
    return text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else str(text)
