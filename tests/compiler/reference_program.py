"""What a program of the tensor IR computes, by numpy, operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product as places_of
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.compiler.tensor_ir.elements import Coordinate, Element, Tensor
from ortpkg.compiler.tensor_ir.operations import (
    Alias,
    Attention,
    Combiner,
    Convolution,
    Map,
    Operation,
    Pool,
    PoolFunction,
    Product,
    Recurrence,
    Reduce,
    RowFunction,
    RowNormalize,
    Window,
)
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from ortpkg.graph.shapes.expressions import Expression, Size, evaluate
from tests.compiler.reference_elements import DTYPES, reference_value
from tests.compiler.reference_recurrence import RecurrenceRun

Array = npt.NDArray[Any]
_FOLDS: Mapping[Combiner, Callable[..., Any]] = {
    Combiner.SUM: np.sum,
    Combiner.PRODUCT: np.prod,
    Combiner.MAX: np.max,
    Combiner.MIN: np.min,
}


def run_program(program: TensorProgram, inputs: Sequence[Array]) -> list[Array]:
    """The program's outputs; symbols are bound by the inputs' shapes."""
    symbols: dict[str, int] = {}
    for tensor, value in zip(program.inputs, inputs, strict=True):
        for size, number in zip(tensor.shape, value.shape, strict=True):
            if isinstance(size, Expression) and size.symbol is not None:
                symbols[size.symbol.name] = number
    run = _Run(symbols, {**program.constants, **dict(zip(program.inputs, inputs, strict=True))})
    for operation in program.operations:
        run.compute(operation)
    return [run.arrays[each] for each in program.outputs]


def run_operation(
    operation: Operation, arrays: Mapping[Tensor, Array], symbols: Mapping[str, int]
) -> Mapping[Tensor, Array]:
    """The arrays with what one operation writes."""
    run = _Run(symbols, dict(arrays))
    run.compute(operation)
    return run.arrays


class _Run:
    def __init__(self, symbols: Mapping[str, int], arrays: dict[Tensor, Array]) -> None:
        self._symbols = symbols
        self.arrays = arrays

    def compute(self, operation: Operation) -> None:
        with np.errstate(all="ignore"):
            match operation:
                case Alias():
                    shape = self._sizes(operation.output.shape)
                    self.arrays[operation.output] = self.arrays[operation.source].reshape(shape)
                case Map():
                    value = self._value(operation.value, self._sizes(operation.axes))
                    self._write(operation.output, operation.coordinates, value)
                case Reduce():
                    self._reduce(operation)
                case RowNormalize():
                    self._normalize(operation)
                case Product():
                    self._product(operation)
                case Convolution() | Pool():
                    self._windows(operation)
                case Attention():
                    self._attention(operation)
                case Recurrence():
                    self._recurrence(operation)

    def _sizes(self, sizes: Sequence[Size]) -> tuple[int, ...]:
        return tuple(evaluate(each, self._symbols) for each in sizes)

    def _value(self, element: Element, axes: Sequence[int], made: Array | None = None) -> Array:
        found = reference_value(element, axes, self.arrays, made=made, symbols=self._symbols)
        return np.broadcast_to(found, tuple(axes))

    def _write(self, output: Tensor, coordinates: Sequence[Coordinate], value: Array) -> None:
        shape = self._sizes(output.shape)
        if output not in self.arrays:
            self.arrays[output] = np.zeros(shape, DTYPES[output.scalar])
        grid = np.meshgrid(*(np.arange(each) for each in value.shape), indexing="ij")
        index = []
        for place in coordinates:
            at = np.full(value.shape, evaluate(place.offset, self._symbols))
            for axis, times in place.terms:
                at = at + grid[axis] * evaluate(times, self._symbols)
            index.append(at)
        self.arrays[output][tuple(index)] = value

    def _finish(self, output: Tensor, epilogue: Element | None, made: Array) -> None:
        value = made if epilogue is None else self._value(epilogue, made.shape, made)
        self.arrays[output] = np.array(value, DTYPES[output.scalar], order="C")

    def _reduce(self, operation: Reduce) -> None:
        axes, reduced = self._sizes(operation.axes), self._sizes(operation.reduced)
        value = self._value(operation.value, (*axes, *reduced))
        wide = value.astype(np.float64) if value.dtype.kind == "f" else value
        over = tuple(range(len(axes), len(axes) + len(reduced)))
        initial: dict[str, Any] = {}
        if operation.combiner in {Combiner.MAX, Combiner.MIN} and value.dtype.kind == "f":
            initial = {"initial": -np.inf if operation.combiner is Combiner.MAX else np.inf}
        made = _FOLDS[operation.combiner](wide, axis=over, **initial)
        self._finish(operation.output, operation.epilogue, np.asarray(made, value.dtype))

    def _normalize(self, operation: RowNormalize) -> None:
        x = self._value(operation.value, self._sizes(operation.axes)).astype(np.float64)
        if operation.function in {RowFunction.SOFTMAX, RowFunction.LOG_SOFTMAX}:
            less = x - x.max(axis=-1, keepdims=True) if x.size else x
            total = np.exp(less).sum(axis=-1, keepdims=True)
            is_log = operation.function is RowFunction.LOG_SOFTMAX
            made = less - np.log(total) if is_log else np.exp(less) / total
        else:
            has_mean = operation.function is RowFunction.STANDARDIZE
            less = x - x.mean(axis=-1, keepdims=True) if has_mean else x
            variance = (less * less).mean(axis=-1, keepdims=True)
            made = less / np.sqrt(variance + operation.epsilon)
        self._finish(operation.output, operation.epilogue, made.astype(np.float32))

    def _product(self, operation: Product) -> None:
        batch = self._sizes(operation.batch)
        m, n, k = self._sizes((operation.m, operation.n, operation.k))
        left = self._value(operation.left, (*batch, m, k))
        right = self._value(operation.right, (*batch, k, n))
        if left.dtype.kind in "iu":
            sides = [left.astype(np.int32), right.astype(np.int32)]
            for at, zero, shape in (
                (0, operation.left_zero, (*batch, m, k)),
                (1, operation.right_zero, (*batch, k, n)),
            ):
                if zero is not None:
                    sides[at] = sides[at] - self._value(zero, shape).astype(np.int32)
            made = np.matmul(*sides)
        else:
            made = np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(np.float32)
        self._finish(operation.output, operation.epilogue, made)

    def _windows(self, operation: Convolution | Pool) -> None:
        source = self.arrays[operation.source].astype(np.float64)
        if isinstance(operation, Convolution) and operation.source_zero is not None:
            source = source - self._value(operation.source_zero, ()).astype(np.float64)
        if isinstance(operation, Convolution) and operation.spread is not None:
            source = _spread(source, operation.spread)
        window, shape = operation.window, self._sizes(operation.output.shape)
        is_max = isinstance(operation, Pool) and operation.function is PoolFunction.MAX
        padding = [(0, 0), (0, 0)]
        for before, after in zip(window.before, window.after, strict=True):
            padding.append((evaluate(before, self._symbols),
                            max(evaluate(after, self._symbols), 0)))  # fmt: skip
        padded = np.pad(source, padding, constant_values=-np.inf if is_max else 0)
        inside = np.pad(np.ones_like(source), padding)
        if isinstance(operation, Convolution):
            made = self._convolved(operation, padded, shape)
        else:
            made = _pooled(operation, padded, inside, shape)
        is_whole = self.arrays[operation.source].dtype.kind in "iu"
        kind = np.int32 if is_whole else np.float32
        self._finish(operation.output, operation.epilogue, made.astype(kind))

    def _convolved(self, operation: Convolution, padded: Array, shape: Sequence[int]) -> Array:
        weights = self.arrays[operation.weights].astype(np.float64)
        if operation.weights_zero is not None:
            axes = (1, weights.shape[0], *(1 for _ in operation.window.kernel))
            zero = self._value(operation.weights_zero, axes).astype(np.float64)
            weights = weights - zero.reshape(-1, *(1 for _ in weights.shape[1:]))
        made = np.zeros(shape)
        own, out = weights.shape[1], shape[1] // operation.groups
        for offsets in places_of(*(range(each) for each in operation.window.kernel)):
            taken = _taken(padded, operation.window, offsets, shape[2:])
            for group in range(operation.groups):
                part = taken[:, group * own : (group + 1) * own]
                place: tuple[Any, ...] = (slice(group * out, (group + 1) * out), ..., *offsets)
                factor = weights[place]
                made[:, group * out : (group + 1) * out] += np.einsum(
                    "oc,nc...->no...", factor, part
                )
        return made

    def _recurrence(self, operation: Recurrence) -> None:
        steps, batch = self._sizes((operation.steps, operation.batch))
        shape = (len(operation.backward), batch, operation.hidden)
        inputs = self.arrays[operation.inputs].reshape(
            shape[0], steps, batch, operation.cell.gate_count * operation.hidden
        )
        run = RecurrenceRun(operation, self._value, steps, batch)
        outputs, *lasts = run.outputs(inputs)
        for tensor, made in zip(
            (operation.output, operation.last, operation.last_cell), (outputs, *lasts), strict=True
        ):
            if tensor is not None:
                self.arrays[tensor] = made.astype(DTYPES[tensor.scalar])

    def _attention(self, operation: Attention) -> None:
        batch = self._sizes(operation.batch)
        queries, keys = self._sizes((operation.queries, operation.keys))
        width, value_width = self._sizes((operation.width, operation.value_width))
        query = self._value(operation.query, (*batch, queries, width)).astype(np.float64)
        key = self._value(operation.key, (*batch, keys, width)).astype(np.float64)
        value = self._value(operation.value, (*batch, keys, value_width)).astype(np.float64)
        scores = (query @ np.swapaxes(key, -1, -2)).astype(np.float32)
        if operation.score is not None:
            scores = self._value(operation.score, scores.shape, scores)
        wide = scores.astype(np.float64)
        weights = np.exp(wide - wide.max(axis=-1, keepdims=True))
        made = (weights / weights.sum(axis=-1, keepdims=True)) @ value
        self._write(operation.output, operation.coordinates, made.astype(np.float32))


def _spread(source: Array, steps: Sequence[int]) -> Array:
    """The source with zeros between its elements."""
    pairs = zip(source.shape[2:], steps, strict=True)
    made = np.zeros((*source.shape[:2], *((size - 1) * step + 1 for size, step in pairs)))
    coordinates: tuple[Any, ...] = (..., *(slice(None, None, step) for step in steps))
    made[coordinates] = source
    return made


def _taken(padded: Array, window: Window, offsets: Sequence[int], counts: Sequence[int]) -> Array:
    """The elements that every window has at one place of it."""
    index: list[slice] = [slice(None), slice(None)]
    for axis, offset in enumerate(offsets):
        first = offset * window.dilations[axis]
        stop = first + (counts[axis] - 1) * window.strides[axis] + 1
        index.append(slice(first, stop, window.strides[axis]))
    return padded[tuple(index)]


def _pooled(operation: Pool, padded: Array, inside: Array, shape: Sequence[int]) -> Array:
    window = operation.window
    taken, counted = [], []
    for offsets in places_of(*(range(each) for each in window.kernel)):
        taken.append(_taken(padded, window, offsets, shape[2:]))
        counted.append(_taken(inside, window, offsets, shape[2:]))
    if operation.function is PoolFunction.MAX:
        made = np.max(taken, axis=0)
        return np.asarray(made)
    total: Array = np.sum(taken, axis=0)
    if operation.function is PoolFunction.AVERAGE_PADDED:
        return total / len(taken)
    return np.asarray(total / np.sum(counted, axis=0))
