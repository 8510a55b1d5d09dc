"""Reductions over axes: Reduce*, ArgMax, ArgMin, CumSum. Narrow floats accumulate in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortpkg.graph.types import ElementType
from ortpkg.runtime.kernels.axes import (
    int_tuple,
    normalized_axes,
    normalized_axis,
    only_number,
    reshaped_view,
)
from ortpkg.runtime.kernels.element_types import BOOLEAN, NUMBERS, widened, widened_nbytes
from ortpkg.runtime.kernels.kernel_registry import KernelDef, kernel
from ortpkg.runtime.kernels.op_kernel import (
    Compute,
    KernelFactory,
    OpKernelContext,
    OpKernelInfo,
    Tensor,
)

_INT64 = np.dtype(np.int64)
_FLOAT64 = np.dtype(np.float64)


@dataclass(frozen=True, slots=True)
class Reduction:
    """Function that reduces elements to one.

    Attributes:
        apply: reduces ``x`` over ``axes`` into ``out``, whose dimensions are kept (of size 1).
        copies, results: number of arrays like ``x``, and like the result, that it allocates
            meanwhile.
        in_floats: True if it computes integers in float64.
    """

    apply: Callable[[Tensor, tuple[int, ...], Tensor], None]
    copies: int = 0
    results: int = 0
    in_floats: bool = False

    def widened(self, x: Tensor) -> Tensor:
        """Return ``x`` in the type in which it is computed."""
        return x.astype(_FLOAT64) if self._is_cast(x) else widened(x)

    def nbytes(self, x: Tensor, count: int) -> int:
        """Return the bytes for reducing ``x`` to ``count`` elements, besides both."""
        wide_nbytes = x.size * _FLOAT64.itemsize if self._is_cast(x) else widened_nbytes(x)
        result_itemsize = _INT64.itemsize if x.dtype.kind in "iu" else max(x.itemsize, 4)
        results = self.results + (wide_nbytes > 0)
        return (
            wide_nbytes
            + self.copies * (wide_nbytes or x.nbytes)
            + results * count * result_itemsize
        )

    def _is_cast(self, x: Tensor) -> bool:
        return self.in_floats and x.dtype.kind in "iu"


def _sum(x: Tensor, axes: tuple[int, ...], out: Tensor) -> None:
    np.add.reduce(x, axis=axes, keepdims=True, out=out)


def _product(x: Tensor, axes: tuple[int, ...], out: Tensor) -> None:
    np.multiply.reduce(x, axis=axes, keepdims=True, out=out)


def _sum_of_squares(x: Tensor, axes: tuple[int, ...], out: Tensor) -> None:
    np.add.reduce(np.square(x), axis=axes, keepdims=True, out=out)


def _sum_of_sizes(x: Tensor, axes: tuple[int, ...], out: Tensor) -> None:
    np.add.reduce(np.abs(x), axis=axes, keepdims=True, out=out)


def _euclidean_norm(x: Tensor, axes: tuple[int, ...], out: Tensor) -> None:
    squares = np.add.reduce(np.square(x), axis=axes, keepdims=True)
    np.copyto(out, np.sqrt(squares, out=squares), casting="unsafe")


def _log_sum(x: Tensor, axes: tuple[int, ...], out: Tensor) -> None:
    total = np.add.reduce(x, axis=axes, keepdims=True)
    np.copyto(out, np.log(total, out=total), casting="unsafe")


def _log_sum_exp(x: Tensor, axes: tuple[int, ...], out: Tensor) -> None:
    """max + log(sum(exp(x - max))), which does not overflow.

    An infinite maximum is left out of the difference.
    """
    if x.size == 0:
        out[...] = -np.inf if out.dtype.kind == "f" else 0
        return
    largest = np.maximum.reduce(x, axis=axes, keepdims=True)
    largest[~np.isfinite(largest)] = 0
    powers = x - largest
    np.exp(powers, out=powers)
    total = np.add.reduce(powers, axis=axes, keepdims=True)
    np.log(total, out=total)
    np.copyto(out, np.add(total, largest, out=total), casting="unsafe")


def _mean(x: Tensor, axes: tuple[int, ...], out: Tensor) -> None:
    """Sum over the count; means of integers are truncated toward zero, as in division.

    The mean of no elements is NaN, or 0 for integers.
    """
    count = x.size // out.size if out.size else 0
    if x.dtype.kind == "f":
        np.add.reduce(x, axis=axes, keepdims=True, out=out)
        np.divide(out, out.dtype.type(count), out=out)
        return
    total = np.add.reduce(
        x, axis=axes, keepdims=True, dtype=np.int64 if x.dtype.kind == "i" else np.uint64
    )
    is_negative = total < 0
    np.negative(total, out=total, where=is_negative)
    if count:
        np.floor_divide(total, count, out=total)
    np.negative(total, out=total, where=is_negative)
    np.copyto(out, total, casting="unsafe")


def _extremum(
    ufunc: Any, floor: Callable[[np.dtype[Any]], Any]
) -> Callable[[Tensor, tuple[int, ...], Tensor], None]:
    """Make a function for the largest or smallest element.

    Of no elements, it is the type's lowest or highest value (``floor``).
    """

    def reduce(x: Tensor, axes: tuple[int, ...], out: Tensor) -> None:
        if x.size:
            ufunc.reduce(x, axis=axes, keepdims=True, out=out)
        else:
            out[...] = floor(x.dtype)

    return reduce


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return False
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _highest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return True
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max


def _reduced(
    context: OpKernelContext,
    x: Tensor,
    axes: Sequence[int] | None,
    keepdims: bool,
    reduction: Reduction,
) -> Tensor:
    over = tuple(range(x.ndim)) if axes is None else normalized_axes(axes, x.ndim)
    kept_shape = tuple(1 if axis in over else size for axis, size in enumerate(x.shape))
    shape = (
        kept_shape
        if keepdims
        else tuple(size for axis, size in enumerate(x.shape) if axis not in over)
    )
    out = context.output(0, shape, x.dtype)
    context.check_allocation(reduction.nbytes(x, out.size))
    wide = reduction.widened(x)
    if x.ndim == 0:
        wide, kept_shape, over = wide.reshape(1), (1,), (0,)
    if wide.dtype == out.dtype or wide.dtype == _FLOAT64:
        reduction.apply(wide, over, out.reshape(kept_shape))
    else:
        result = np.empty(kept_shape, wide.dtype)
        reduction.apply(wide, over, result)
        np.copyto(out.reshape(kept_shape), result, casting="unsafe")
    return out


def _reduce(reduction: Reduction) -> KernelFactory:
    """Make the factory of a reduction for all versions: axes were an attribute before 18.

    For ReduceSum, they were until version 13.
    """

    def factory(info: OpKernelInfo) -> Compute:
        keepdims = bool(info.attribute("keepdims", 1))
        by_attribute = info.attribute("axes")
        do_nothing = bool(info.attribute("noop_with_empty_axes", 0))

        def compute(context: OpKernelContext, x: Tensor, axes: Tensor | None = None) -> Tensor:
            over = by_attribute if axes is None else int_tuple(axes)
            if not over:
                over = () if do_nothing else None
            return _reduced(context, x, over, keepdims, reduction)

        return compute

    return factory


_REDUCTIONS: Mapping[str, tuple[Reduction, tuple[int, ...], frozenset[ElementType]]] = {
    "ReduceSum": (Reduction(_sum), (1, 11, 13), NUMBERS),
    "ReduceMean": (Reduction(_mean, results=2), (1, 11, 13, 18), NUMBERS),
    "ReduceProd": (Reduction(_product), (1, 11, 13, 18), NUMBERS),
    "ReduceMax": (
        Reduction(_extremum(np.maximum, _lowest)),
        (1, 11, 12, 13, 18, 20),
        NUMBERS | BOOLEAN,
    ),
    "ReduceMin": (
        Reduction(_extremum(np.minimum, _highest)),
        (1, 11, 12, 13, 18, 20),
        NUMBERS | BOOLEAN,
    ),
    "ReduceL1": (Reduction(_sum_of_sizes, copies=1), (1, 11, 13, 18), NUMBERS),
    "ReduceL2": (
        Reduction(_euclidean_norm, copies=1, results=1, in_floats=True),
        (1, 11, 13, 18),
        NUMBERS,
    ),
    "ReduceSumSquare": (Reduction(_sum_of_squares, copies=1), (1, 11, 13, 18), NUMBERS),
    "ReduceLogSum": (Reduction(_log_sum, results=1, in_floats=True), (1, 11, 13, 18, 28), NUMBERS),
    "ReduceLogSumExp": (
        Reduction(_log_sum_exp, copies=1, results=3, in_floats=True),
        (1, 11, 13, 18, 28),
        NUMBERS,
    ),
}
KERNELS = tuple(
    KernelDef(op_type=op_type, since=since, types={"T": types}, factory=_reduce(reduction))
    for op_type, (reduction, since, types) in _REDUCTIONS.items()
)


def _arg_extremum(info: OpKernelInfo, find: Callable[..., Any]) -> Compute:
    axis, keepdims = info.attribute("axis", 0), bool(info.attribute("keepdims", 1))
    last = bool(info.attribute("select_last_index", 0))

    def compute(context: OpKernelContext, x: Tensor) -> Tensor:
        if x.ndim == 0:
            x = x.reshape(1)
            shape: tuple[int, ...] = ()
            along = 0
        else:
            along = normalized_axis(axis, x.ndim)
            middle = (1,) if keepdims else ()
            shape = (*x.shape[:along], *middle, *x.shape[along + 1 :])
        if x.shape[along] == 0:
            raise ValueError(
                f"axis {along} of shape {x.shape} is empty, so it has no largest or smallest"
                " element"
            )
        out = context.output(0, shape, _INT64)
        nbytes = widened_nbytes(x)
        if last or along != x.ndim - 1:  # numpy makes a copy with the axis last
            nbytes += nbytes or x.nbytes
        context.check_allocation(nbytes)
        indices = reshaped_view(out, (*x.shape[:along], *x.shape[along + 1 :]))
        find(widened(np.flip(x, along) if last else x), axis=along, out=indices)
        if last:
            np.subtract(x.shape[along] - 1, indices, out=indices)
        return out

    return compute


@kernel("ArgMax", since=(1, 11, 12, 13), types={"T": NUMBERS})
def arg_max(info: OpKernelInfo) -> Compute:
    return _arg_extremum(info, np.argmax)


@kernel("ArgMin", since=(1, 11, 12, 13), types={"T": NUMBERS})
def arg_min(info: OpKernelInfo) -> Compute:
    return _arg_extremum(info, np.argmin)


def _cumulative(info: OpKernelInfo, ufunc: Any, neutral: int) -> Compute:
    exclusive, reverse = bool(info.attribute("exclusive", 0)), bool(info.attribute("reverse", 0))

    def compute(context: OpKernelContext, x: Tensor, axis: Tensor) -> Tensor:
        along = normalized_axis(int(only_number(axis, "axis").item()), x.ndim)
        out = context.output(0, x.shape, x.dtype)
        context.check_allocation(2 * widened_nbytes(x))
        wide = widened(x)
        result = out if wide is x else np.empty(x.shape, wide.dtype)
        source = np.flip(wide, along) if reverse else wide
        target = np.flip(result, along) if reverse else result
        if exclusive and x.size:
            before = (slice(None),) * along
            target[(*before, slice(0, 1))] = neutral
            ufunc.accumulate(
                source[(*before, slice(0, -1))],
                axis=along,
                out=target[(*before, slice(1, None))],
                dtype=wide.dtype,
            )
        elif x.size:
            ufunc.accumulate(source, axis=along, out=target, dtype=wide.dtype)
        if result is not out:
            np.copyto(out, result, casting="unsafe")
        return out

    return compute


@kernel("CumSum", since=(11, 14), types={"T": NUMBERS})
def cumulative_sum(info: OpKernelInfo) -> Compute:
    return _cumulative(info, np.add, 0)


@kernel("CumProd", since=(26,), types={"T": NUMBERS})
def cumulative_product(info: OpKernelInfo) -> Compute:
    return _cumulative(info, np.multiply, 1)
