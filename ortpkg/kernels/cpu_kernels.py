"""The CPU provider's kernels: the literal list of modules, and the registry made from them."""

from __future__ import annotations

from functools import cache

from ortpkg.kernels import (
    activations,
    attention,
    batch_normalization,
    cast,
    comparison,
    control_flow,
    conv_transpose,
    convolution,
    detection,
    einsum,
    elementwise,
    flex_attention,
    gemm,
    generators,
    grid_sample,
    image,
    microsoft_attention,
    microsoft_matmul,
    microsoft_normalization,
    microsoft_quantization,
    normalization,
    pooling,
    quantization,
    quantized_conv,
    random_generators,
    recurrent,
    reduction,
    resize,
    rotary_embedding,
    scatter,
    sequence,
    signal,
    softmax,
    sorting,
    tensor_index,
    tensor_layout,
    tensor_shape,
    text,
    traditional_ml,
    tree_kernels,
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
    reduction,
    softmax,
    gemm,
    convolution,
    conv_transpose,
    pooling,
    normalization,
    batch_normalization,
    flex_attention,
    random_generators,
    signal,
    detection,
    image,
    attention,
    rotary_embedding,
    tree_kernels,
    traditional_ml,
    resize,
    sorting,
    einsum,
    recurrent,
    microsoft_normalization,
    microsoft_attention,
    text,
    grid_sample,
)


@cache
def cpu_kernel_registry() -> KernelRegistry:
    """Every kernel of :data:`CPU_KERNEL_MODULES`; made once, not to be changed."""
    return KernelRegistry(definition for module in CPU_KERNEL_MODULES for definition in kernel_defs_of(module))
