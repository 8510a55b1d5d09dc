"""Constants of a graph from TensorProtos: checked when loaded, mapped or read on first use.

Source: onnx.proto, TensorProto and SparseTensorProto.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from ortpkg.foundations.errors import ModelFileError, quoted
from ortpkg.graph.byte_source import ByteSource, MemoryBytes
from ortpkg.graph.external_data import ExternalDataFolder, external_data_info, is_external
from ortpkg.graph.given_tensors import FilesInMemory
from ortpkg.graph.graph import ArrayInitializer, Initializer
from ortpkg.graph.load_control import LISTED_NBYTES, load_control, polled_parts
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.proto_text import text_of
from ortpkg.graph.tensor_codec import decode_raw
from ortpkg.graph.types import MOST_DIMENSIONS, PACKED_BITS, ElementType, numpy_dtype, stored_nbytes
from ortpkg.graph.value_types import element_type_from_number

Array = npt.NDArray[Any]

_MOST_ELEMENTS = (1 << 63) // 16 - 1  # likewise, in bytes, for the widest elements
_UNTYPED_FIELDS = {
    ElementType.FLOAT: "float_data",
    ElementType.COMPLEX64: "float_data",
    ElementType.DOUBLE: "double_data",
    ElementType.COMPLEX128: "double_data",
    ElementType.INT64: "int64_data",
    ElementType.UINT32: "uint64_data",
    ElementType.UINT64: "uint64_data",
}


@dataclass(slots=True, kw_only=True)
class MappedInitializer:
    """A constant whose bytes are read only when :meth:`numpy` is first called.

    The range [offset, offset + stored bytes) has been checked against ``source``.
    """

    name: str
    element_type: ElementType
    shape: tuple[int, ...]
    source: ByteSource
    offset: int
    _array: Array | None = field(default=None, repr=False)

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * numpy_dtype(self.element_type).itemsize

    def numpy(self) -> Array:
        # Two threads may both decode; either result is right.
        array = self._array
        if array is None:
            alignment = (
                1 if self.element_type in PACKED_BITS else numpy_dtype(self.element_type).itemsize
            )
            nbytes = stored_nbytes(self.element_type, prod(self.shape))
            array = self._array = decode_raw(
                self.source.array(self.offset, nbytes, alignment), self.element_type, self.shape
            )
        return array

    def forget(self) -> None:
        """Drop the decoded array, which may be a copy; the next reader decodes it again."""
        self._array = None


@dataclass(slots=True, kw_only=True)
class SparseInitializer:
    """A constant stored as its non-zero values; :meth:`numpy` is the dense tensor.

    Attributes:
        values: the non-zero values, one-dimensional.
        indices: their positions: flat [n], or coordinates [n, rank]; checked against ``shape``.
    """

    name: str
    values: Initializer
    indices: Initializer
    shape: tuple[int, ...]
    _array: Array | None = field(default=None, repr=False)

    @property
    def element_type(self) -> ElementType:
        """The element type of the values."""
        return self.values.element_type

    @property
    def nbytes(self) -> int:
        """The size of the dense tensor."""
        return prod(self.shape) * numpy_dtype(self.element_type).itemsize

    def numpy(self) -> Array:
        """Return the dense tensor, made once; read-only."""
        if self._array is None:  # as above
            self._array = self._dense()
        return self._array

    def _dense(self) -> Array:
        control = load_control()
        if control is not None:
            control.check_constant(self.nbytes)
        values, indices = self.values.numpy(), self.indices.numpy()
        empty: Any = "" if self.element_type is ElementType.STRING else 0
        dense = np.full(self.shape, empty, dtype=values.dtype)
        if indices.ndim == 2:
            dense[tuple(indices.T)] = values
        else:
            dense.reshape(-1)[indices] = values
        dense.flags.writeable = False
        return dense


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorReader:
    """Makes initializers from TensorProtos of one model.

    Attributes:
        folder: the folder of external data; None if the model came from memory without one.
        limits: bounds on tensors in attributes and on sparse tensors.
    """

    folder: ExternalDataFolder | FilesInMemory | None
    limits: ModelLimits
    # Total size of the sparse constants so far, as dense arrays.
    _dense_nbytes: list[int] = field(default_factory=lambda: [0], repr=False, compare=False)

    def initializer(
        self,
        tensor: onnx.TensorProto,
        *,
        name: str | None = None,
        raw: tuple[ByteSource, int, int] | None = None,
    ) -> Initializer:
        """Return the constant in ``tensor``.

        Args:
            tensor: the message.
            name: the name of the constant; default: the tensor's.
            raw: the location of its ``raw_data`` (source, offset, length), if that was cut from the
                message.

        Raises:
            ModelFileError: with the tensor's name, if its data does not fit its type and shape, or
                its external data is missing, too short, or outside the model's folder.
        """
        where = f"tensor {quoted(tensor.name)}"
        element_type, shape = _type_and_shape(tensor, where)
        name = text_of(tensor.name, "tensor name") if name is None else name
        if is_external(tensor):
            source, offset, nbytes = self._external_range(tensor, element_type, shape, where)
        elif raw is not None:
            source, offset, nbytes = raw
        elif tensor.HasField("raw_data"):
            data = tensor.raw_data
            source, offset, nbytes = MemoryBytes(data), 0, len(data)
        else:
            return ArrayInitializer(
                name, _typed_field(tensor, element_type, shape, where), element_type
            )
        _check_length(nbytes, element_type, shape, where)
        return MappedInitializer(
            name=name, element_type=element_type, shape=shape, source=source, offset=offset
        )

    def sparse_initializer(
        self, sparse: onnx.SparseTensorProto, *, name: str | None = None
    ) -> SparseInitializer:
        """Return the constant in ``sparse``.

        Raises:
            ModelFileError: with its name, if values, indices and shape do not fit.
        """
        where = f"sparse tensor {quoted(sparse.values.name)}"
        shape = _checked_shape(sparse.dims, where)
        values = self.initializer(sparse.values)
        indices = self.initializer(sparse.indices)
        made = SparseInitializer(
            name=values.name if name is None else name, values=values, indices=indices, shape=shape
        )
        most, together = self.limits.dense_nbytes, self._dense_nbytes[0] + made.nbytes
        if together > most:
            needed = (
                f"{made.nbytes} bytes"
                if made.nbytes > most
                else f"{together} bytes, with those before it,"
            )
            raise ModelFileError(
                f"{where} would take {needed} when dense; at most {most} are allowed"
            )
        self._dense_nbytes[0] = together
        control = load_control()
        if control is not None:
            control.check_constant(together)
        if len(values.shape) != 1 or indices.element_type is not ElementType.INT64:
            raise ModelFileError(f"{where} must have one-dimensional values and int64 indices")
        _check_indices(indices.numpy(), values.shape[0], shape, where)
        return made

    def _external_range(
        self,
        tensor: onnx.TensorProto,
        element_type: ElementType,
        shape: tuple[int, ...],
        where: str,
    ) -> tuple[ByteSource, int, int]:
        """Return file, offset and length of the tensor's data; the file is long enough."""
        info = external_data_info(tensor)
        if self.folder is None:
            raise ModelFileError(
                f"{where} has external data in {quoted(info.location)}, but the model comes from"
                " memory: say in which folder it lies"
                " (session.model_external_initializers_file_folder_path)"
            )
        if element_type is ElementType.STRING:
            raise ModelFileError(f"{where} holds strings, which cannot be external data")
        file = self.folder.file(info.location, where)
        nbytes = stored_nbytes(element_type, prod(shape)) if info.length is None else info.length
        if info.offset + nbytes > file.nbytes:
            raise ModelFileError(
                f"{where} needs bytes {info.offset} to {info.offset + nbytes} of"
                f" {quoted(info.location)}, which has only {file.nbytes}"
            )
        return file, info.offset, nbytes


def _type_and_shape(tensor: onnx.TensorProto, where: str) -> tuple[ElementType, tuple[int, ...]]:
    element_type = element_type_from_number(tensor.data_type, where)
    if element_type is ElementType.UNDEFINED:
        raise ModelFileError(f"{where} has no element type")
    if tensor.HasField("segment"):
        raise ModelFileError(f"{where} is stored in segments, which ONNX has never defined further")
    return element_type, _checked_shape(tensor.dims, where)


def _checked_shape(dims: Any, where: str) -> tuple[int, ...]:
    if len(dims) > MOST_DIMENSIONS:
        raise ModelFileError(
            f"{where} has {len(dims)} dimensions; at most {MOST_DIMENSIONS} are supported"
        )
    shape = tuple(int(dimension) for dimension in dims)
    if any(dimension < 0 for dimension in shape):
        raise ModelFileError(f"{where} has a negative dimension: {shape}")
    if prod(dimension for dimension in shape if dimension) > _MOST_ELEMENTS:
        # For an empty tensor too, numpy multiplies its other dimensions.
        raise ModelFileError(
            f"{where} has the dimensions {list(shape)}; no machine can count so many elements"
        )
    return shape


def _check_length(
    nbytes: int, element_type: ElementType, shape: tuple[int, ...], where: str
) -> None:
    if element_type is ElementType.STRING:
        raise ModelFileError(f"{where} holds strings as raw data, which ONNX does not allow")
    needed = stored_nbytes(element_type, prod(shape))
    if nbytes != needed:
        raise ModelFileError(
            f"{where} has {nbytes} bytes of data; {element_type.name.lower()}{list(shape)} needs"
            f" {needed}"
        )


def _typed_field(
    tensor: onnx.TensorProto, element_type: ElementType, shape: tuple[int, ...], where: str
) -> Array:
    """Return the data of ``float_data``, ``int32_data`` and so on, one element per entry.

    Complex numbers are pairs; bit patterns of small floats, and packed integers, are entries of
    ``int32_data``.
    """
    dtype = numpy_dtype(element_type)
    if element_type is ElementType.STRING:
        _check_count(len(tensor.string_data), prod(shape), where)
        array = np.empty(prod(shape), dtype=object)
        array[:] = [
            text.decode("utf-8", "surrogateescape")
            for text in polled_parts(tensor.string_data, LISTED_NBYTES)
        ]
    elif element_type in _UNTYPED_FIELDS:
        entries = getattr(tensor, _UNTYPED_FIELDS[element_type])
        parts = (
            dtype
            if dtype.kind != "c"
            else np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
        )
        _check_count(len(entries), prod(shape) * (dtype.itemsize // parts.itemsize), where)
        array = np.array(entries, dtype=parts).view(dtype)
    else:
        stored = np.array(tensor.int32_data, dtype=np.int32)
        if element_type in PACKED_BITS and PACKED_BITS[element_type] != 6:
            _check_count(stored.size, stored_nbytes(element_type, prod(shape)), where)
            return decode_raw(stored.astype(np.uint8), element_type, shape)
        _check_count(stored.size, prod(shape), where)
        if element_type in PACKED_BITS:
            array = (stored.astype(np.uint8) & 0x3F).view(dtype)
        elif element_type is ElementType.BOOL:
            array = stored != 0
        else:
            array = stored.astype(f"u{dtype.itemsize}").view(dtype)
    array = array.reshape(shape)
    array.flags.writeable = False
    return array


def _check_count(count: int, needed: int, where: str) -> None:
    if count != needed:
        raise ModelFileError(f"{where} has {count} entries of data; its shape needs {needed}")


def _check_indices(indices: Array, count: int, shape: tuple[int, ...], where: str) -> None:
    if indices.shape == (count,):
        bounds: Any = prod(shape)
    elif indices.shape == (count, len(shape)):
        bounds = np.array(shape, dtype=np.int64)
    else:
        raise ModelFileError(
            f"{where} has indices of shape {list(indices.shape)} for {count} values"
        )
    if indices.size and ((indices < 0).any() or (indices >= bounds).any()):
        raise ModelFileError(f"{where} has an index outside its shape {list(shape)}")
