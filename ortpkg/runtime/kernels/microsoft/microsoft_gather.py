"""com.microsoft: GatherBlockQuantized, rows of a table quantized in blocks, as for embeddings.

Source: ONNX Runtime, docs/ContribOperators.md. Only the gathered rows are dequantized, in float32,
some indices at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ortpkg.graph.types import ElementType, numpy_dtype
from ortpkg.runtime.kernels.axes import normalized_axis
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor
from ortpkg.runtime.kernels.packed_bits import bits_apart

_DOMAIN = "com.microsoft"
_FLOAT32 = np.dtype(np.float32)
_PACKED_BITS = (2, 4, 8)
_NIBBLES = (numpy_dtype(ElementType.INT4), numpy_dtype(ElementType.UINT4))
_NARROW_FLOATS = tuple(
    numpy_dtype(element_type)
    for element_type in (
        ElementType.FLOAT8E4M3FN,
        ElementType.FLOAT8E4M3FNUZ,
        ElementType.FLOAT8E5M2,
        ElementType.FLOAT8E5M2FNUZ,
        ElementType.FLOAT4E2M1,
    )
)
#: Most elements that are dequantized at a time.
_BLOCK = 1 << 16
#: Bytes per element meanwhile: the codes, the scales and zero points spread over them, and the
#: values.
_NBYTES_PER_ELEMENT = 16


def _check_parameters(
    data: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    block_size: int,
    per_byte: int,
) -> None:
    """Raise ValueError if scales or zero points do not fit ``data``.

    Narrow floats may share scales (dimensions of 1).
    """
    shares = data.dtype in _NARROW_FLOATS
    blocks = -(-data.shape[axis] * per_byte // block_size)
    expected = [blocks if index == axis else size for index, size in enumerate(data.shape)]
    fits = scales.ndim == data.ndim and all(
        size == right or (shares and index != axis and size == 1)
        for index, (size, right) in enumerate(zip(scales.shape, expected, strict=True))
    )
    if not fits:
        raise ValueError(
            f"scales of a tensor of shape {data.shape} in blocks of {block_size} along axis {axis}"
            f" have shape {tuple(expected)}, not {scales.shape}"
        )
    if zero_points is None:
        return
    if shares:
        raise ValueError(f"data of type {data.dtype} is symmetric: it takes no zero points")
    packed = tuple(
        -(-size // per_byte) if index == axis else size for index, size in enumerate(scales.shape)
    )
    if zero_points.shape != packed or zero_points.dtype != data.dtype:
        raise ValueError(
            f"zero points have the shape {packed} and the type {data.dtype} here, "
            f"not {zero_points.shape} and {zero_points.dtype}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Quantized data with its scales and zero points.

    Attributes:
        data, scales: inputs of the node, checked.
        points: zero points like ``scales``, one for all, or None.
        gather, axis: the axes to gather and to quantize along, from the front.
        bits: number of bits of a code in a byte, 8 if an element is a code.
        block_size: number of codes per scale along ``axis``.
    """

    data: Tensor
    scales: Tensor
    points: Tensor | int | None
    gather: int
    axis: int
    bits: int
    block_size: int

    def values(self, chosen: Tensor) -> Tensor:
        """Return the float32 values at ``chosen`` indices of the gather axis."""
        values = bits_apart(np.take(self.data, chosen, axis=self.gather), self.bits).astype(
            _FLOAT32
        )
        if isinstance(self.points, int):
            values -= np.float32(self.points)
        elif self.points is not None:
            values -= self._spread(self.points, chosen, values.shape[self.axis])
        values *= self._spread(self.scales, chosen, values.shape[self.axis])
        return values

    def _spread(self, parameter: Tensor, chosen: Tensor, size: int) -> Tensor:
        """Return a parameter at the chosen indices in float32, broadcastable to their codes."""
        if self.gather == self.axis:
            return np.take(parameter, chosen // self.block_size, axis=self.gather).astype(_FLOAT32)
        chosen_parameter = (
            parameter
            if parameter.shape[self.gather] == 1
            else np.take(parameter, chosen, axis=self.gather)
        )
        spread: Tensor = np.repeat(
            chosen_parameter.astype(_FLOAT32), self.block_size, axis=self.axis
        )
        return spread[(*(slice(None),) * self.axis, slice(0, size))]


@kernel("GatherBlockQuantized", since=(1,), domain=_DOMAIN)
def gather_block_quantized(info: OpKernelInfo) -> Compute:
    """Gathered rows; uint8 data packs 8 / ``bits`` codes per byte along its last axis.

    An index out of range gives zeros.
    """
    gather_axis, quantize_axis = (
        int(info.attribute("gather_axis", 0)),
        int(info.attribute("quantize_axis", 1)),
    )
    bits, block_size = int(info.attribute("bits", 4)), int(info.attribute("block_size", 128))
    if block_size != 0 and (block_size < 16 or block_size & (block_size - 1)):
        raise ValueError(f"block_size is a power of 2 from 16 on (0: one block), not {block_size}")
    if bits not in _PACKED_BITS:
        raise ValueError(f"GatherBlockQuantized takes 2, 4 or 8 bits, not {bits}")

    def compute(
        context: OpKernelContext,
        data: Tensor,
        indices: Tensor,
        scales: Tensor,
        zero_points: Tensor | None = None,
    ) -> Tensor:
        axes = normalized_axis(gather_axis, data.ndim), normalized_axis(quantize_axis, data.ndim)
        table = _checked_table(data, scales, zero_points, axes, bits, block_size)
        gather, per_byte = table.gather, 8 // table.bits
        after = data.shape[gather + 1 :]
        if per_byte > 1:
            after = (*after[:-1], after[-1] * per_byte)
        out = context.output(0, (*data.shape[:gather], *indices.shape, *after), scales.dtype)
        if not out.size:
            return out
        count = data.shape[gather]
        flat = indices.reshape(-1).astype(np.int64)
        flat = np.where(flat < 0, flat + count, flat)
        outside = (flat < 0) | (flat >= count)
        flat[outside] = 0
        target = out.reshape(*data.shape[:gather], flat.size, *after)
        per_index = math.prod(data.shape[:gather]) * math.prod(after)
        step = max(_BLOCK // max(per_index, 1), 1)
        context.check_allocation(min(step, flat.size) * per_index * _NBYTES_PER_ELEMENT)
        before = (slice(None),) * gather
        for start in range(0, flat.size if count else 0, step):
            context.check_cancelled()
            block = slice(start, start + step)
            np.copyto(target[(*before, block)], table.values(flat[block]), casting="unsafe")
        if outside.any():
            target[(*before, outside)] = 0
        return out

    return compute


def _checked_table(
    data: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axes: tuple[int, int],
    bits: int,
    block_size: int,
) -> _Table:
    """Return the table of a run. Raises ValueError if inputs and attributes do not fit."""
    gather, axis = axes
    per_byte = _codes_per_element(data, gather, axis, bits)
    if block_size == 0 and data.dtype not in _NARROW_FLOATS:
        raise ValueError(
            f"block_size 0, one block per axis, is for float8 and float4, not for {data.dtype}"
        )
    if scales.dtype not in (np.float32, np.float16):
        raise ValueError(f"scales are float or float16, not {scales.dtype}")
    block_size = block_size or max(data.shape[axis], 1)
    _check_parameters(data, scales, zero_points, axis, block_size, per_byte)
    points: Tensor | int | None = zero_points
    if zero_points is not None and per_byte > 1:
        points = bits_apart(zero_points, bits)[..., : scales.shape[-1]]
    if zero_points is None and data.dtype == np.uint8:
        points = 1 << (bits - 1)
    return _Table(
        data=data,
        scales=scales,
        points=points,
        gather=gather,
        axis=axis,
        bits=8 // per_byte,
        block_size=block_size,
    )


def _codes_per_element(data: Tensor, gather: int, axis: int, bits: int) -> int:
    """Return the number of codes that one element of ``data`` packs.

    Raises:
        ValueError: data, axes and bits do not fit each other.
    """
    if data.dtype == np.uint8:
        if gather != 0 or axis != data.ndim - 1 or gather == axis:
            raise ValueError(
                f"packed data of shape {data.shape} is gathered along axis 0 and quantized along"
                f" its last axis, not along {gather} and {axis}"
            )
        return 8 // bits
    if data.dtype in _NIBBLES and bits != 4:
        raise ValueError(f"data of type {data.dtype} has 4 bits, not {bits}")
    if data.dtype not in (*_NIBBLES, *_NARROW_FLOATS):
        raise ValueError(
            "GatherBlockQuantized takes uint8, int4, uint4, float8 or float4 data, not"
            f" {data.dtype}"
        )
    return 1
