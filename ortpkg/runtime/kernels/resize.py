"""Resize and Upsample, axis by axis, with :mod:`.resampling`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortpkg.graph.shapes.resampling import AxisPlan, Sampler, plans_from_scales, plans_from_sizes
from ortpkg.graph.types import ElementType
from ortpkg.runtime.kernels.axes import int_tuple, normalized_axes
from ortpkg.runtime.kernels.element_types import BOOLEAN, COMPLEX, NUMBERS, is_float, widened
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

#: Types without weighted sums: the operators take every type, and do not define sums of these.
_TYPES = NUMBERS | COMPLEX | BOOLEAN | {ElementType.STRING}
#: Types whose weighted sums have the same type.
_SUMMED = tuple(map(np.dtype, (np.float32, np.float64, np.complex64, np.complex128)))
#: Float types for the sums of integers: of 8 and 16 bits, and of 32 and 64.
_WIDE = tuple(map(np.dtype, (np.float32, np.float64)))


def _resized(
    context: OpKernelContext, x: Tensor, plans: Sequence[AxisPlan], sampler: Sampler
) -> Tensor:
    out = context.output(0, tuple(plan.output for plan in plans), x.dtype)
    if out.size == 0:
        return out
    if x.size == 0:
        raise ValueError(f"an input of shape {x.shape} has nothing to resize to {out.shape}")
    exact = sampler.mode == "nearest" or x.dtype in _SUMMED
    if not exact and x.dtype.kind in "bO":
        elements = "truth values" if x.dtype.kind == "b" else "texts"
        raise ValueError(f"{elements} have no {sampler.mode} values between them; nearest works")
    context.check_allocation(0 if exact else 2 * x.size * max(_WIDE[0].itemsize, x.itemsize))
    y = x if exact else _wide(x)
    # Shrinking axes go first: the others then have less to do.
    for plan in sorted(
        (plan for plan in plans if plan.changes), key=lambda plan: plan.output / plan.size
    ):
        held_nbytes = 0 if y is x else y.nbytes
        context.check_allocation(
            held_nbytes + sampler.taps_nbytes(plan) + sampler.result_nbytes(y, plan)
        )
        y = sampler.resample(y, plan)
    if x.dtype.kind in "iu" and not exact:
        # onnxruntime rounds toward zero between two pixels, and to the nearest integer elsewhere.
        is_rounded = sampler.mode == "cubic" or sampler.antialias
        _copy_saturated(out, np.rint(y, out=y) if is_rounded else y)
    else:
        np.copyto(out, y, casting="unsafe")
    return out


def _wide(x: Tensor) -> Tensor:
    """Return ``x`` in the float type in which its weighted sums are computed."""
    if is_float(x.dtype):
        return widened(x)
    return x.astype(_WIDE[x.itemsize >= np.dtype(np.int32).itemsize])


def _copy_saturated(out: Tensor, y: Tensor) -> None:
    """Write floats to integers, the limits of their type for what lies beyond; ``y`` changes."""
    limits = np.iinfo(out.dtype)
    # 2**63 - 1 is no float, and the float next to it is too large.
    is_exact = limits.bits <= np.finfo(y.dtype).nmant
    largest = y.dtype.type(limits.max) if is_exact else np.nextafter(y.dtype.type(limits.max), 0)
    is_beyond = y > largest
    np.copyto(out, np.clip(y, limits.min, largest, out=y), casting="unsafe")
    np.copyto(out, limits.max, where=is_beyond)


@kernel("Resize", since=(11, 13, 18, 19), types={"T1": _TYPES})
def resize(info: OpKernelInfo) -> Compute:
    sampler = Sampler.of(info.node, info.attribute)
    axes, policy = (
        info.attribute("axes"),
        str(info.attribute("keep_aspect_ratio_policy", "stretch")),
    )
    crops = sampler.coordinates == "tf_crop_and_resize"

    def compute(
        context: OpKernelContext,
        x: Tensor,
        roi: Tensor | None = None,
        scales: Tensor | None = None,
        sizes: Tensor | None = None,
    ) -> Tensor:
        over = tuple(range(x.ndim)) if axes is None else normalized_axes(axes, x.ndim)
        region = widened(roi).tolist() if crops and roi is not None else []
        if sizes is not None and sizes.size:
            plans = plans_from_sizes(x.shape, int_tuple(sizes), over, region, policy)
        elif scales is not None and scales.size:
            plans = plans_from_scales(x.shape, scales.tolist(), over, region)
        else:
            raise ValueError("neither scales nor sizes are given")
        return _resized(context, x, plans, sampler)

    return compute


@kernel("Resize", since=(10,), types={"T": _TYPES})
@kernel("Upsample", since=(9, 10), types={"T": _TYPES})
def resize_by_scales(info: OpKernelInfo) -> Compute:
    sampler = Sampler.of(info.node, info.attribute)

    def compute(context: OpKernelContext, x: Tensor, scales: Tensor) -> Tensor:
        return _resized(
            context, x, plans_from_scales(x.shape, scales.tolist(), range(x.ndim), ()), sampler
        )

    return compute


@kernel("Upsample", since=(1, 7), types={"T": _TYPES})
def upsample_by_attribute(info: OpKernelInfo) -> Compute:
    sampler = Sampler.of(info.node, info.attribute)
    scales = info.attribute("scales") or (
        1.0,
        1.0,
        info.attribute("height_scale"),
        info.attribute("width_scale"),
    )
    return lambda context, x: _resized(
        context, x, plans_from_scales(x.shape, scales, range(x.ndim), ()), sampler
    )
