"""The CPU provider's kernels: the literal list of modules, and the registry made from them."""

from __future__ import annotations

from functools import cache

from ortpkg.kernels import (
    activations,
    cast,
    comparison,
    control_flow,
    elementwise,
    generators,
    microsoft_matmul,
    microsoft_quantization,
    quantization,
    quantized_conv,
    scatter,
    sequence,
    tensor_index,
    tensor_layout,
    tensor_shape,
)
from ortpkg.kernels.kernel_registry import KernelRegistry, kernel_defs_of

#: Earlier modules win where two define the same operator, version and types.
CPU_KERNEL_MODULES = (
    elementwise,
    comparison,
    cast,
    activations,
    tensor_shape,
    tensor_layout,
    tensor_index,
    scatter,
    generators,
    control_flow,
    sequence,
    quantization,
    quantized_conv,
    microsoft_quantization,
    microsoft_matmul,
)


@cache
def cpu_kernel_registry() -> KernelRegistry:
    """Every kernel of :data:`CPU_KERNEL_MODULES`; made once, not to be changed."""
    return KernelRegistry(definition for module in CPU_KERNEL_MODULES for definition in kernel_defs_of(module))
