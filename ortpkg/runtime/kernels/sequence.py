"""Sequences and optionals.

A sequence is a list of arrays, an optional is None or the value itself. Elements are copied when
they go in or come out (see :mod:`ortpkg.runtime.kernels.ownership`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np

from ortpkg.runtime.kernels.axes import int_tuple, normalized_axis
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor, Value
from ortpkg.runtime.kernels.ownership import copied

Sequence = list[Value]

#: Bytes of a separate array besides its elements, and number of arrays between two checks of a
#: run's limits.
_PART_NBYTES = 128
_PARTS_AT_ONCE = 1024


def _position(index: Tensor, length: int, *, most: int) -> int:
    """Return an index into a sequence counted from the front.

    Raises:
        ValueError: it is outside [-length, most].
    """
    if index.size != 1:
        raise ValueError(
            f"a position in a sequence is one number, but this one has shape {index.shape}"
        )
    position = int(index.reshape(()))
    if not -length <= position <= most:
        raise ValueError(
            f"position {position} is not in [{-length}, {most}] for a sequence of {length}"
        )
    return position + length if position < 0 else position


def _checked_copy(context: OpKernelContext, value: Value) -> Value:
    """Return a copy of a value, after a check of its memory."""
    context.check_allocation(value.nbytes if isinstance(value, np.ndarray) else 0)
    return copied(value)


@kernel("SequenceEmpty", since=(11,), uses_output_buffer=False)
def sequence_empty(_info: OpKernelInfo) -> Compute:
    def compute(_context: OpKernelContext) -> Sequence:
        return []

    return compute


@kernel("SequenceConstruct", since=(11,), uses_output_buffer=False)
def sequence_construct(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, *elements: Tensor) -> Sequence:
        context.check_allocation(sum(element.nbytes for element in elements))
        return [copied(element) for element in elements]

    return compute


@kernel("SequenceInsert", since=(11,), uses_output_buffer=False)
def sequence_insert(_info: OpKernelInfo) -> Compute:
    def compute(
        context: OpKernelContext,
        sequence: Sequence,
        element: Tensor,
        position: Tensor | None = None,
    ) -> Sequence:
        at = (
            len(sequence)
            if position is None
            else _position(position, len(sequence), most=len(sequence))
        )
        return [*sequence[:at], _checked_copy(context, element), *sequence[at:]]

    return compute


@kernel("SequenceErase", since=(11,), uses_output_buffer=False)
def sequence_erase(_info: OpKernelInfo) -> Compute:
    def compute(
        _context: OpKernelContext, sequence: Sequence, position: Tensor | None = None
    ) -> Sequence:
        index = np.int64(-1) if position is None else position
        at = _position(np.asarray(index), len(sequence), most=len(sequence) - 1)
        return [*sequence[:at], *sequence[at + 1 :]]

    return compute


@kernel("SequenceAt", since=(11,), uses_output_buffer=False)
def sequence_at(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, sequence: Sequence, position: Tensor) -> Value:
        at = _position(position, len(sequence), most=len(sequence) - 1)
        return _checked_copy(context, sequence[at])

    return compute


@kernel("SequenceLength", since=(11,), uses_output_buffer=False)
def sequence_length(_info: OpKernelInfo) -> Compute:
    def compute(_context: OpKernelContext, sequence: Sequence) -> Tensor:
        return np.array(len(sequence), dtype=np.int64)

    return compute


@kernel("SplitToSequence", since=(11, 24), uses_output_buffer=False)
def split_to_sequence(info: OpKernelInfo) -> Compute:
    """Sequence of equal parts (scalar ``split``), parts of given lengths, or single slices."""
    axis_attribute = int(info.attribute("axis", 0))
    keeps_axis = bool(info.attribute("keepdims", 1))

    def compute(context: OpKernelContext, x: Tensor, split: Tensor | None = None) -> Sequence:
        moved = np.moveaxis(x, normalized_axis(axis_attribute, x.ndim), 0)
        context.check_allocation(x.nbytes + _PART_NBYTES * _part_count(split, len(moved)))
        start, parts = 0, []
        for number, length in enumerate(_part_lengths(split, len(moved))):
            if not number % _PARTS_AT_ONCE:
                context.check_cancelled()
            if split is None and not keeps_axis:
                part = moved[start].copy()
            else:
                part = np.array(
                    np.moveaxis(moved[start : start + length], 0, axis_attribute), order="C"
                )
            parts.append(part)
            start += length
        return parts

    return compute


def _part_count(split: Tensor | None, size: int) -> int:
    """Return the largest possible number of parts, before any of them is made."""
    if split is None:
        return size
    return -(-size // max(int(split), 1)) if split.ndim == 0 else split.size


def _part_lengths(split: Tensor | None, size: int) -> Iterable[int]:
    if split is None:
        return itertools.repeat(1, size)
    lengths = int_tuple(split, most=split.size)
    if split.ndim == 0:
        if lengths[0] <= 0:
            raise ValueError(f"parts have a positive length, not {lengths[0]}")
        whole, rest = divmod(size, lengths[0])
        return itertools.chain(itertools.repeat(lengths[0], whole), (rest,) if rest else ())
    if any(length < 0 for length in lengths) or sum(lengths) != size:
        raise ValueError(f"parts of lengths {lengths} do not make up an axis of size {size}")
    return lengths


@kernel("ConcatFromSequence", since=(11,))
def concat_from_sequence(info: OpKernelInfo) -> Compute:
    axis_attribute = int(info.attribute("axis"))
    makes_axis = bool(info.attribute("new_axis", 0))

    def compute(context: OpKernelContext, sequence: Sequence) -> Tensor:
        if not sequence:
            raise ValueError("an empty sequence cannot be concatenated")
        axis = normalized_axis(axis_attribute, sequence[0].ndim + makes_axis)
        parts = [np.expand_dims(element, axis) for element in sequence] if makes_axis else sequence
        first = parts[0]
        size = sum(part.shape[axis] for part in parts)
        output = context.output(
            0, (*first.shape[:axis], size, *first.shape[axis + 1 :]), first.dtype
        )
        return np.concatenate(parts, axis=axis, out=output)

    return compute


@kernel("SequenceMap", since=(17,), uses_output_buffer=False)
def sequence_map(info: OpKernelInfo) -> Compute:
    """Sequence of the body's results for each element.

    Further inputs are sequences of the same length, or tensors that each iteration gets.
    """
    output_count = len(info.node.outputs)

    def compute(context: OpKernelContext, sequence: Sequence, *others: Value) -> Value:
        for other in others:
            if isinstance(other, list) and len(other) != len(sequence):
                raise ValueError(
                    f"SequenceMap's sequences have one length, but these have {len(sequence)},"
                    f" {len(other)}"
                )
        collected: list[Sequence] = [[] for _ in range(output_count)]
        nbytes = 0
        for index, element in enumerate(sequence):
            context.check_cancelled()
            feeds = [
                element,
                *(other[index] if isinstance(other, list) else other for other in others),
            ]
            results = context.run_subgraph("body", [copied(feed) for feed in feeds])
            for outputs, result in zip(collected, results, strict=False):
                outputs.append(result)
                nbytes += getattr(result, "nbytes", 0)
            context.check_allocation(nbytes)
        return collected[0] if output_count == 1 else tuple(collected)

    return compute


# --- optionals ------------------------------------------------------------------------------------


@kernel("Optional", since=(15, 28), uses_output_buffer=False)
def optional(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, value: Value = None) -> Value:
        return _checked_copy(context, value)

    return compute


@kernel("OptionalGetElement", since=(15, 18, 28), uses_output_buffer=False)
def optional_get_element(_info: OpKernelInfo) -> Compute:
    def compute(context: OpKernelContext, value: Value) -> Value:
        if value is None:
            raise ValueError("the optional has no element to get")
        return _checked_copy(context, value)

    return compute


@kernel("OptionalHasElement", since=(15, 18, 28), uses_output_buffer=False)
def optional_has_element(_info: OpKernelInfo) -> Compute:
    def compute(_context: OpKernelContext, value: Value = None) -> Tensor:
        return np.array(value is not None)

    return compute
