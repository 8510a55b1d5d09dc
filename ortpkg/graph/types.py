"""ONNX types as values: element types, tensor types, container types.

Source: onnx.proto (TypeProto, TensorProto.DataType). Names of element types are ONNX Runtime's
("float", "int64").
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import ml_dtypes
import numpy as np

Dimension = int | str | None
Shape = tuple[Dimension, ...]

#: Most dimensions of a tensor; numpy has no more.
MOST_DIMENSIONS = 64


class ElementType(IntEnum):
    """The element types of tensors, with the numbers of TensorProto.DataType."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20
    UINT4 = 21
    INT4 = 22
    FLOAT4E2M1 = 23
    FLOAT8E8M0 = 24
    UINT2 = 25
    INT2 = 26
    FLOAT6E2M3 = 27
    FLOAT6E3M2 = 28


_NUMPY_DTYPES: dict[ElementType, np.dtype] = {
    ElementType.FLOAT: np.dtype(np.float32),
    ElementType.UINT8: np.dtype(np.uint8),
    ElementType.INT8: np.dtype(np.int8),
    ElementType.UINT16: np.dtype(np.uint16),
    ElementType.INT16: np.dtype(np.int16),
    ElementType.INT32: np.dtype(np.int32),
    ElementType.INT64: np.dtype(np.int64),
    ElementType.STRING: np.dtype(object),
    ElementType.BOOL: np.dtype(np.bool_),
    ElementType.FLOAT16: np.dtype(np.float16),
    ElementType.DOUBLE: np.dtype(np.float64),
    ElementType.UINT32: np.dtype(np.uint32),
    ElementType.UINT64: np.dtype(np.uint64),
    ElementType.COMPLEX64: np.dtype(np.complex64),
    ElementType.COMPLEX128: np.dtype(np.complex128),
    ElementType.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    ElementType.FLOAT8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    ElementType.FLOAT8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    ElementType.FLOAT8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    ElementType.FLOAT8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
    ElementType.UINT4: np.dtype(ml_dtypes.uint4),
    ElementType.INT4: np.dtype(ml_dtypes.int4),
    ElementType.FLOAT4E2M1: np.dtype(ml_dtypes.float4_e2m1fn),
    ElementType.FLOAT8E8M0: np.dtype(ml_dtypes.float8_e8m0fnu),
    ElementType.UINT2: np.dtype(ml_dtypes.uint2),
    ElementType.INT2: np.dtype(ml_dtypes.int2),
    ElementType.FLOAT6E2M3: np.dtype(ml_dtypes.float6_e2m3fn),
    ElementType.FLOAT6E3M2: np.dtype(ml_dtypes.float6_e3m2fn),
}
#: Bits per element, for the types that ONNX stores packed.
PACKED_BITS: dict[ElementType, int] = {
    ElementType.UINT4: 4,
    ElementType.INT4: 4,
    ElementType.FLOAT4E2M1: 4,
    ElementType.UINT2: 2,
    ElementType.INT2: 2,
    ElementType.FLOAT6E2M3: 6,
    ElementType.FLOAT6E3M2: 6,
}
_ELEMENT_TYPES = {dtype: element_type for element_type, dtype in _NUMPY_DTYPES.items()}


def numpy_dtype(element_type: ElementType) -> np.dtype:
    """Return the numpy dtype that represents ``element_type`` at run time (object for strings)."""
    return _NUMPY_DTYPES[element_type]


def element_type_of(dtype: np.dtype) -> ElementType:
    """Return the element type of a numpy dtype, the inverse of :func:`numpy_dtype`.

    Numpy's own string dtypes count as STRING. KeyError for a foreign dtype.
    """
    if dtype.kind in "US":
        return ElementType.STRING
    return _ELEMENT_TYPES[dtype]


def stored_nbytes(element_type: ElementType, count: int) -> int:
    """Return the number of bytes of ``raw_data`` for ``count`` elements.

    KeyError for types that have no raw form.
    """
    return -(-count * PACKED_BITS.get(element_type, 8 * numpy_dtype(element_type).itemsize) // 8)


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor; ``shape`` is None if even the rank is unknown."""

    element_type: ElementType
    shape: Shape | None = None

    def __str__(self) -> str:
        return f"tensor({self.element_type.name.lower()})"

    @property
    def is_static(self) -> bool:
        """True if rank and every dimension are known numbers."""
        return self.shape is not None and all(
            isinstance(dimension, int) for dimension in self.shape
        )


@dataclass(frozen=True, slots=True)
class SparseTensorType:
    """A tensor stored as its non-zero values; ``shape`` is the dense one, None if unknown."""

    element_type: ElementType
    shape: Shape | None = None

    def __str__(self) -> str:
        return f"sparse_tensor({self.element_type.name.lower()})"


@dataclass(frozen=True, slots=True)
class SequenceType:
    """Any number of values of one type."""

    element: ValueType

    def __str__(self) -> str:
        return f"seq({self.element})"


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A value of that type, or none."""

    element: ValueType

    def __str__(self) -> str:
        return f"optional({self.element})"


@dataclass(frozen=True, slots=True)
class MapType:
    """A dictionary; keys are integers or strings."""

    key: ElementType
    value: ValueType

    def __str__(self) -> str:
        return f"map({self.key.name.lower()},{self.value})"


ValueType = TensorType | SparseTensorType | SequenceType | OptionalType | MapType
