"""The CPU provider's kernels: the literal list of modules, and the registry made from them."""

from __future__ import annotations

from functools import cache

from ortpkg.runtime.kernels import (
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
    feature_rows,
    flex_attention,
    gemm,
    generators,
    grid_sample,
    image,
    image_decoder,
    linear_models,
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
    support_vectors,
    tensor_index,
    tensor_layout,
    tensor_shape,
    text,
    traditional_ml,
    tree_kernels,
)
from ortpkg.runtime.kernels.kernel_registry import KernelRegistry, kernel_defs_of
from ortpkg.runtime.kernels.microsoft import (
    microsoft_attention,
    microsoft_gather,
    microsoft_generation,
    microsoft_group_query_attention,
    microsoft_matmul,
    microsoft_moe,
    microsoft_normalization,
    microsoft_pooling,
    microsoft_quantization,
    microsoft_sparse_attention,
)

#: No two define a kernel for the same operator, version and types.
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
    microsoft_pooling,
    microsoft_gather,
    microsoft_generation,
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
    image_decoder,
    attention,
    rotary_embedding,
    tree_kernels,
    traditional_ml,
    resize,
    sorting,
    support_vectors,
    linear_models,
    feature_rows,
    einsum,
    recurrent,
    microsoft_normalization,
    microsoft_attention,
    microsoft_group_query_attention,
    microsoft_sparse_attention,
    microsoft_moe,
    text,
    grid_sample,
)


@cache
def cpu_kernel_registry() -> KernelRegistry:
    """Return the registry of every kernel of :data:`CPU_KERNEL_MODULES`.

    It is made once, and must not be changed.
    """
    return KernelRegistry(
        definition for module in CPU_KERNEL_MODULES for definition in kernel_defs_of(module)
    )
