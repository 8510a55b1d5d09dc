"""OrtValue of onnxruntime's Python API, over arrays and over tensors on devices."""

from __future__ import annotations

import ctypes
import math
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.graph.types import ElementType, SequenceType, TensorType, element_type_of, numpy_dtype
from ortpkg.runtime.kernels.device_tensor import DeviceTensor
from ortpkg.runtime.kernels.op_kernel import Tensor, Value
from ortpkg.runtime.session.values.device_values import (
    copy_tensor,
    is_host,
    memory_of,
    open_memory_named,
)
from ortpkg.runtime.session.values.memory_info import OrtMemoryInfo
from ortpkg.runtime.session.values.onnxruntime_enums import OrtMemoryInfoDeviceType
from ortpkg.runtime.session.values.ort_device import OrtDevice
from ortpkg.runtime.session.values.sparse_tensor import SparseTensor

_CPU = "cpu"
#: DLPack's numbers for the CPU and its only device.
_DLPACK_CPU = (1, 0)


class OrtValue:
    """A value at run time: an array, a sequence, a map, a sparse tensor, or nothing."""

    def __init__(
        self,
        ortvalue: Value | SparseTensor | OrtValue,
        numpy_obj: Tensor | None = None,  # noqa: ARG002 - onnxruntime's argument
        session: object = None,  # noqa: ARG002 - likewise
    ) -> None:
        """Wrap a value without checks, or share that of another OrtValue.

        The ``ortvalue_from_...`` methods check what they wrap.

        Args:
            ortvalue: the value.
            numpy_obj, session: ignored; onnxruntime keeps them alive beside a native value.
        """
        self._value: Any = ortvalue.value if isinstance(ortvalue, OrtValue) else ortvalue

    @classmethod
    def ortvalue_from_numpy(
        cls,
        array: Tensor,
        /,
        device_type: str | OrtDevice = _CPU,
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """Wrap ``array``, which must outlive the OrtValue unchanged.

        Copied if it is not contiguous.

        On another device than the CPU, the value is a copy there.

        Raises:
            UsageError: ``array`` is not an array or scalar of numpy, or no session of this process
                is on the device.
        """
        is_near = is_host(device_type, device_id, vendor_id)
        if not isinstance(array, np.ndarray | np.generic):
            raise UsageError(
                f"an OrtValue is made of an array of numpy's, not of a {type(array).__name__}"
            )
        checked = _contiguous(_checked(np.asarray(array)))
        if is_near:
            return cls(checked)
        if checked.dtype.hasobject:
            raise UsageError("texts lie in the memory of the CPU; no device takes them")
        return cls(memory_of(device_type, device_id, vendor_id).upload(checked))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(
        cls, data: Tensor, /, onnx_element_type: int
    ) -> OrtValue:
        """Wrap ``data`` as another type of the same size, such as bfloat16 stored in uint16.

        Raises:
            UsageError: an unknown type, or one of another size.
        """
        dtype = dtype_of(onnx_element_type)
        if dtype.hasobject or data.dtype.hasobject or dtype.itemsize != data.dtype.itemsize:
            raise UsageError(
                f"elements of {data.dtype} cannot be read as {dtype}: they are of another size or"
                " kind"
            )
        return cls(_contiguous(data).view(dtype))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: npt.DTypeLike | int,
        device_type: str | OrtDevice = _CPU,
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: OrtMemoryInfo | None = None,
    ) -> OrtValue:
        """Return an uninitialized tensor.

        Args:
            shape: the sizes.
            element_type: a numpy type, or a number of TensorProto.DataType.
            device_type, device_id, vendor_id: the CPU, or a device that a session is on.
            memory_info: alternative to these; must describe host memory.

        Raises:
            UsageError: another device, or an impossible shape.
        """
        is_near = True
        if memory_info is not None:
            if (device_type, device_id, vendor_id) != (_CPU, 0, -1):
                warnings.warn(
                    "device_type, device_id and vendor_id mean nothing beside memory_info",
                    stacklevel=2,
                )
            if memory_info.device_type is not OrtMemoryInfoDeviceType.CPU:
                raise UsageError(f"values lie in the memory of the CPU, not in {memory_info!r}")
        else:
            is_near = is_host(device_type, device_id, vendor_id)
        if any(size < 0 for size in shape):
            raise UsageError(f"a tensor has no negative sizes, unlike {list(shape)}")
        array = np.empty(tuple(shape), dtype_of(element_type))
        if is_near:
            return cls(array)
        return cls(memory_of(device_type, device_id, vendor_id).upload(array))

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: SparseTensor) -> OrtValue:
        """Wrap a sparse tensor."""
        return cls(sparse_tensor)

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """Share the memory of another library's tensor, by the DLPack protocol.

        Raises:
            TypeError: not such a tensor and not a DLPack capsule.
            UsageError: the tensor is not contiguous, or numpy does not have its element type.
        """
        if isinstance(data, OrtValue):
            return cls(data.numpy())
        if isinstance(data, np.ndarray):
            array: Tensor = data
        else:
            array = _from_dlpack(data)
        if not array.flags.c_contiguous:
            raise UsageError("a tensor is taken by DLPack only where it is contiguous")
        return cls(_checked(array))

    # --- its content ------------------------------------------------------------------------------

    def numpy(self) -> Tensor:
        """Return the array, or a copy of a tensor on a device; UsageError if it is no tensor."""
        if isinstance(self._value, DeviceTensor):
            return open_memory_named(self._value.memory).download(self._value)
        if not isinstance(self._value, np.ndarray):
            raise UsageError(f"only a tensor has an array, this is a {self.data_type()}")
        return self._value

    def tensor(self) -> Tensor | DeviceTensor:
        """Return the array, or the tensor on a device, without a copy; UsageError if it is none."""
        return self._value if isinstance(self._value, DeviceTensor) else self.numpy()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Tensor:
        """Return the array for ``numpy.asarray``, converted or copied on request."""
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def as_sparse_tensor(self) -> SparseTensor:
        """Return the sparse tensor; UsageError if the value is another kind."""
        if not isinstance(self._value, SparseTensor):
            raise UsageError(f"this is no sparse tensor but a {self.data_type()}")
        return self._value

    @property
    def value(self) -> Any:
        """The wrapped value, of any kind."""
        return self._value

    def update_inplace(self, data: Tensor | OrtValue) -> None:
        """Overwrite the elements.

        Raises:
            UsageError: shapes or types differ, or the tensor is read-only.
            TypeError: ``data`` is not a tensor.
        """
        array = data.tensor() if isinstance(data, OrtValue) else data
        if not isinstance(array, np.ndarray | DeviceTensor):
            raise TypeError(
                "an OrtValue is overwritten by an array or an OrtValue, not by a"
                f" {type(data).__name__}"
            )
        target = self.tensor()
        if target.shape != array.shape or target.dtype != array.dtype:
            raise UsageError(
                f"cannot write {array.dtype}{list(array.shape)} over"
                f" {target.dtype}{list(target.shape)}"
            )
        if isinstance(target, np.ndarray) and not target.flags.writeable:
            raise UsageError("the tensor lies in an array that is read-only")
        copy_tensor(array, target)

    def __dlpack__(self, *, stream: Any = None) -> Any:
        """Return a DLPack capsule that shares the tensor's memory.

        Raises:
            UsageError: DLPack does not have this element type here.
        """
        if _is_far(self._value):
            raise UsageError(f"{self._value} is no memory of the CPU's, which DLPack shares")
        array = self.numpy()
        try:
            return (
                array if array.flags.writeable else array.copy()
            ).__dlpack__()  # numpy exports no read-only array
        except (BufferError, TypeError) as error:
            raise UsageError(
                f"a {self.data_type()} cannot be handed on by DLPack: {error}"
            ) from error

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's numbers of the CPU."""
        self.tensor()
        return _DLPACK_CPU

    def to_dlpack(self) -> Any:
        """Return :meth:`__dlpack__`, under the name in onnxruntime's native class."""
        return self.__dlpack__()

    # --- what it is -------------------------------------------------------------------------------

    def shape(self) -> list[int]:
        """Return the sizes of the dimensions; for a sparse tensor, those of the dense one.

        Raises:
            UsageError: the value is not a tensor.
        """
        if isinstance(self._value, SparseTensor):
            return self._value.dense_shape()
        return list(self.tensor().shape)

    def data_type(self) -> str:
        """Return ONNX Runtime's text for the type, e.g. "tensor(float)".

        "sequence" for an empty sequence, whose element type is unknown.
        """
        value = self._value
        if isinstance(value, np.ndarray | DeviceTensor):
            return str(TensorType(element_type_of(value.dtype)))
        if isinstance(value, SparseTensor):
            return value.data_type()
        if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
            return str(SequenceType(TensorType(element_type_of(value[0].dtype))))
        return {list: "sequence", dict: "map", type(None): "none"}.get(type(value), "opaque")

    def element_type(self) -> int:
        """Return the elements' number in TensorProto.DataType."""
        if isinstance(self._value, SparseTensor):
            return int(self._value.element_type())
        return int(element_type_of(self.tensor().dtype))

    def tensor_size_in_bytes(self) -> int:
        """Return the size of the elements in bytes; UsageError if the value is not a tensor."""
        return int(self.tensor().nbytes)

    def device_name(self) -> str:
        """Return "cpu", or onnxruntime's name of the device that the value lies on."""
        value = self._value
        return open_memory_named(value.memory).device_name if _is_far(value) else _CPU

    def data_ptr(self) -> int:
        """Return the address of the first element; UsageError for a tensor on a device."""
        if _is_far(self._value):
            raise UsageError(f"{self._value} has no address that the CPU reads")
        return int(self.numpy().ctypes.data)

    def has_value(self) -> bool:
        """Return False for an optional that is empty."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Return True if the value is a tensor."""
        return isinstance(self._value, np.ndarray | DeviceTensor)

    def is_sparse_tensor(self) -> bool:
        """Return True if the value is a sparse tensor."""
        return isinstance(self._value, SparseTensor)

    def is_tensor_sequence(self) -> bool:
        """Return True if the value is a sequence."""
        return isinstance(self._value, list)

    @property
    def _ortvalue(self) -> OrtValue:
        """This object, in the place of onnxruntime's native value.

        Programs pass that to onnxruntime's native vectors; this engine has no native values.
        """
        return self

    def _get_c_value(self) -> OrtValue:
        return self


def _is_far(value: Any) -> bool:
    return isinstance(value, DeviceTensor)


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copy tensors into others of the same types and shapes.

    Raises:
        UsageError: the numbers of tensors differ, or a stream is given.
    """
    if stream is not None:
        raise UsageError("no execution provider here has streams")
    if len(src) != len(dst):
        raise UsageError(f"{len(src)} tensors cannot be copied into {len(dst)}")
    for source, target in zip(src, dst, strict=True):
        target.update_inplace(source)


def dtype_of(element_type: npt.DTypeLike | int) -> np.dtype[Any]:
    """Return the numpy type for a numpy type or a number of TensorProto.DataType.

    Raises:
        UsageError: an unknown number.
    """
    if not isinstance(element_type, int):
        dtype = np.dtype(element_type)
        return np.dtype(object) if dtype.kind in "US" else dtype
    try:
        return numpy_dtype(ElementType(element_type))
    except (ValueError, KeyError) as error:
        raise UsageError(f"there is no type of elements with the number {element_type}") from error


def array_at(address: int, shape: Sequence[int], element_type: npt.DTypeLike | int) -> Tensor:
    """Return the caller's memory as an array; UsageError for an impossible shape or type."""
    dtype = dtype_of(element_type)
    nbytes = math.prod(shape) * dtype.itemsize
    if dtype.hasobject:
        raise UsageError(f"a tensor of {dtype} cannot be bound by its address")
    if any(size < 0 for size in shape) or not 0 < address <= sys.maxsize - nbytes:
        raise UsageError(f"there is no tensor of shape {tuple(shape)} at the address {address}")
    memory = (ctypes.c_byte * nbytes).from_address(address)
    return np.ndarray(tuple(shape), dtype, buffer=memoryview(memory))


class _Capsule:
    """A capsule wrapped in an object of the protocol, as numpy needs it."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _DLPACK_CPU


def _from_dlpack(data: Any) -> Tensor:
    if not hasattr(data, "__dlpack__") and type(data).__name__ != "PyCapsule":
        raise TypeError(
            f"a {type(data).__name__} is neither a tensor of the DLPack protocol nor a DLPack"
            " capsule"
        )
    try:
        return np.from_dlpack(data if hasattr(data, "__dlpack_device__") else _Capsule(data))
    except (BufferError, RuntimeError) as error:
        raise UsageError(f"the tensor cannot be taken by DLPack: {error}") from error
    except ValueError as error:  # a capsule that was used before, or is not DLPack's
        raise TypeError(f"this is no DLPack capsule that can be taken: {error}") from error


def _contiguous(array: Tensor) -> Tensor:
    return array if array.flags.c_contiguous else array.copy(order="C")


def _checked(array: Tensor) -> Tensor:
    try:
        element_type_of(array.dtype)
    except KeyError:
        raise UsageError(f"an array of {quoted(array.dtype)} is no tensor of ONNX") from None
    return array
