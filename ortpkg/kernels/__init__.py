"""Operator kernels over numpy, by operator family, and the registry in which sessions find them.

Other folders may import: ``blas_threads``, ``cpu_kernels``, ``custom_op``, ``custom_op_kernel``,
``custom_ops``, ``device_tensor``, ``kernel_registry``, ``op_kernel``, ``op_kernel_info``,
``polling``, ``random_seed``, ``reference_kernels``, ``resampling``, ``runnable_operators``.
"""
