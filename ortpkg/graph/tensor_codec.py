"""Converts between numpy arrays and the little-endian, packed bytes of ONNX's ``raw_data``.

Source: onnx.proto, TensorProto.raw_data; docs/docsgen "4 bit" and "2 bit" types: the first element
lies in the lowest bits of the first byte.
"""

from __future__ import annotations

import sys
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.graph.byte_source import ByteArray
from ortpkg.graph.types import PACKED_BITS, ElementType, numpy_dtype

Array = npt.NDArray[Any]


def decode_raw(data: ByteArray, element_type: ElementType, shape: tuple[int, ...]) -> Array:
    """Return the tensor in ``data``, which has exactly the bytes that it needs.

    It is a read-only view of ``data`` if possible.

    ``data`` must be aligned for the element type if the view has to be.
    """
    dtype = numpy_dtype(element_type)
    if element_type in PACKED_BITS:
        unpacked = _unpack(data, PACKED_BITS[element_type], prod(shape))
        return _read_only(unpacked.view(dtype).reshape(shape))
    if element_type is ElementType.BOOL:
        # Any non-zero byte is true; numpy's booleans must be 0 or 1.
        return _read_only(
            (data.view(np.bool_) if data.max(initial=0) <= 1 else data != 0).reshape(shape)
        )
    return _read_only(_swapped_on_big_endian(data.view(dtype)).reshape(shape))


def encode_raw(array: Array, element_type: ElementType) -> bytes:
    """Return the tensor as bytes, the inverse of :func:`decode_raw`."""
    if element_type in PACKED_BITS:
        return _pack(
            np.ascontiguousarray(array).reshape(-1).view(np.uint8), PACKED_BITS[element_type]
        ).tobytes()
    return _swapped_on_big_endian(np.ascontiguousarray(array)).tobytes()


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def _swapped_on_big_endian(array: Array) -> Array:
    if sys.byteorder == "little" or array.dtype.itemsize == 1:
        return array
    if array.dtype.kind == "c":  # numpy swaps the two parts apart
        return array.byteswap()
    unsigned = np.dtype(f"u{array.dtype.itemsize}")
    return array.view(unsigned).byteswap().view(array.dtype)


def _unpack(data: ByteArray, bits: int, count: int) -> ByteArray:
    """Return one element per byte, in its lowest bits."""
    if bits == 6:
        groups = np.zeros((-(-data.size // 3), 3), dtype=np.uint32)
        groups.reshape(-1)[: data.size] = data
        words = groups[:, 0] | groups[:, 1] << 8 | groups[:, 2] << 16
        elements: Array = words[:, None] >> np.arange(0, 24, 6, dtype=np.uint32) & 0x3F
    else:
        elements = data[:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & ((1 << bits) - 1)
    unpacked: ByteArray = elements.astype(np.uint8).reshape(-1)[:count]
    return unpacked


def _pack(elements: ByteArray, bits: int) -> ByteArray:
    per_group = 4 if bits == 6 else 8 // bits
    padded = np.zeros(-(-elements.size // per_group) * per_group, dtype=np.uint32)
    padded[: elements.size] = elements & ((1 << bits) - 1)
    shifts = np.arange(per_group, dtype=np.uint32) * bits
    words = np.bitwise_or.reduce(padded.reshape(-1, per_group) << shifts, axis=1)
    group_nbytes = per_group * bits // 8
    packed = words[:, None] >> np.arange(group_nbytes, dtype=np.uint32) * 8
    trimmed: ByteArray = packed.astype(np.uint8).reshape(-1)[: -(-elements.size * bits // 8)]
    return trimmed
