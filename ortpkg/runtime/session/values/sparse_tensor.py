"""SparseTensor: a tensor's non-zero values and their indices, as in onnxruntime's Python API."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.foundations.errors import UsageError
from ortpkg.graph.types import ElementType, SparseTensorType, element_type_of
from ortpkg.runtime.kernels.op_kernel import Tensor
from ortpkg.runtime.session.values.onnxruntime_enums import OrtSparseFormat
from ortpkg.runtime.session.values.ort_device import OrtDevice, check_is_host

Indices = npt.NDArray[np.int64]


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


class SparseCooView:
    """Indices of a tensor in COO form."""

    def __init__(self, indices: Indices) -> None:
        self._indices = _read_only(indices)

    def indices(self) -> Indices:
        """Return flat positions [n], or coordinates [n, 2], as they were given."""
        return self._indices


class SparseCsrView:
    """Indices of a tensor in CSR form."""

    def __init__(self, inner: Indices, outer: Indices) -> None:
        self._inner, self._outer = _read_only(inner), _read_only(outer)

    def inner(self) -> Indices:
        """Return the column of each value."""
        return self._inner

    def outer(self) -> Indices:
        """Return the position of each row's first value, and the number of values."""
        return self._outer


class SparseTensor:
    """Non-zero values with their indices. Arrays of numbers are not copied."""

    def __init__(
        self, values: Tensor, dense_shape: Sequence[int], view: SparseCooView | SparseCsrView
    ) -> None:
        """Use :meth:`sparse_coo_from_numpy` and :meth:`sparse_csr_from_numpy`."""
        if not isinstance(view, SparseCooView | SparseCsrView):
            raise UsageError(
                "a SparseTensor is made by sparse_coo_from_numpy or sparse_csr_from_numpy"
            )
        self._values = _read_only(values.astype(object) if values.dtype.kind in "US" else values)
        self._dense_shape = [int(size) for size in dense_shape]
        self._view = view

    @classmethod
    def sparse_coo_from_numpy(
        cls,
        dense_shape: npt.NDArray[np.int64] | Sequence[int],
        values: Tensor,
        coo_indices: npt.NDArray[np.int64],
        ort_device: OrtDevice,
    ) -> SparseTensor:
        """Return a tensor whose values lie at flat positions [n], or at coordinates [n, 2].

        Raises:
            UsageError: the numbers of indices and values differ, or an index lies outside the
                shape.
        """
        shape, indices = _checked_shape(dense_shape), _checked_indices(coo_indices)
        check_is_host(ort_device)
        _check_values(values)
        count = len(values)
        is_flat = indices.shape == (count,)
        if not is_flat and (indices.shape != (count, 2) or len(shape) != 2):
            raise UsageError(
                f"{count} values of a tensor {shape} have indices [{count}], or [{count}, 2] in a"
                f" matrix, not {list(indices.shape)}"
            )
        bounds = np.array([math.prod(shape)] if is_flat else shape, np.int64)
        _check_bounds(indices, bounds)
        return cls(values, shape, SparseCooView(indices))

    @classmethod
    def sparse_csr_from_numpy(
        cls,
        dense_shape: npt.NDArray[np.int64] | Sequence[int],
        values: Tensor,
        inner_indices: npt.NDArray[np.int64],
        outer_indices: npt.NDArray[np.int64],
        ort_device: OrtDevice,
    ) -> SparseTensor:
        """Return a matrix whose values are stored row by row.

        Raises:
            UsageError: there is not one column per value, or not one entry more than the matrix has
                rows.
        """
        shape = _checked_shape(dense_shape)
        inner, outer = _checked_indices(inner_indices), _checked_indices(outer_indices)
        check_is_host(ort_device)
        _check_values(values)
        if len(shape) != 2 or inner.shape != (len(values),) or outer.shape != (shape[0] + 1,):
            raise UsageError(
                f"{len(values)} values of a matrix have as many inner_indices, and outer_indices"
                f" one more than it has rows; {inner.shape} and {outer.shape} do not fit the shape"
                f" {shape}"
            )
        _check_bounds(inner, np.array([shape[1]]))
        if outer[0] != 0 or outer[-1] != len(values) or (np.diff(outer) < 0).any():
            raise UsageError(f"outer_indices must rise from 0 to {len(values)}")
        return cls(values, shape, SparseCsrView(inner, outer))

    def values(self) -> Tensor:
        """Return the non-zero values."""
        return self._values

    def as_coo_view(self) -> SparseCooView:
        """Return the indices in COO form; UsageError for another form."""
        if not isinstance(self._view, SparseCooView):
            raise UsageError("this sparse tensor is not in COO form")
        return self._view

    def as_csrc_view(self) -> SparseCsrView:
        """Return the indices in CSR form; UsageError for another form."""
        if not isinstance(self._view, SparseCsrView):
            raise UsageError("this sparse tensor is not in CSR form")
        return self._view

    def as_blocksparse_view(self) -> Any:
        """Raise UsageError: block-sparse tensors cannot be created here."""
        raise UsageError("this sparse tensor is not in block form")

    def to_cuda(self, ort_device: OrtDevice) -> SparseTensor:
        """Raise UsageError: values lie in the CPU's memory."""
        raise UsageError(f"sparse tensors lie on device 'cpu'; {ort_device!r} is not supported")

    def format(self) -> OrtSparseFormat:
        """Return the format of the indices."""
        is_coo = isinstance(self._view, SparseCooView)
        return OrtSparseFormat.ORT_SPARSE_COO if is_coo else OrtSparseFormat.ORT_SPARSE_CSRC

    def dense_shape(self) -> list[int]:
        """Return the shape of the dense tensor."""
        return list(self._dense_shape)

    def element_type(self) -> ElementType:
        """Return the type of the values."""
        return element_type_of(self._values.dtype)

    def data_type(self) -> str:
        """Return onnxruntime's text for the type, e.g. "sparse_tensor(float)"."""
        return str(SparseTensorType(self.element_type()))

    def device_name(self) -> str:
        """Return "cpu"."""
        return "cpu"

    def to_dense(self) -> Tensor:
        """Return the tensor with its zeros; an extension of onnxruntime's API."""
        empty: Any = "" if self._values.dtype == object else 0
        dense = np.full(self._dense_shape, empty, dtype=self._values.dtype)
        if isinstance(self._view, SparseCsrView):
            rows = np.repeat(np.arange(self._dense_shape[0]), np.diff(self._view.outer()))
            dense[rows, self._view.inner()] = self._values
        elif self._view.indices().ndim == 2:
            dense[tuple(self._view.indices().T)] = self._values
        else:
            dense.reshape(-1)[self._view.indices()] = self._values
        return dense

    def _get_c_tensor(self) -> SparseTensor:
        return self


def _checked_shape(dense_shape: npt.NDArray[np.int64] | Sequence[int]) -> list[int]:
    shape = [int(size) for size in dense_shape]
    if any(size < 0 for size in shape):
        raise UsageError(f"a dense shape has no negative sizes, unlike {shape}")
    return shape


def _checked_indices(indices: Any) -> Indices:
    array = np.asarray(indices)
    if array.dtype.kind not in "iu":
        raise UsageError(f"indices are whole numbers, not {array.dtype}")
    return array.astype(np.int64, copy=False)


def _check_values(values: Any) -> None:
    if not isinstance(values, np.ndarray) or values.ndim != 1:
        raise UsageError("the values of a sparse tensor are a one-dimensional numpy array")


def _check_bounds(indices: Indices, bounds: Indices) -> None:
    if indices.size and ((indices < 0).any() or (indices >= bounds).any()):
        raise UsageError(f"an index lies outside of the dense tensor: sizes are {bounds.tolist()}")
