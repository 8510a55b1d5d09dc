"""Operator kernels over numpy, by operator family, and the registry in which sessions find them.

Other folders may import: ``blas_threads``, ``cpu_kernels``, ``custom_op_kernel``,
``device_tensor``, ``kernel_registry``, ``op_kernel_info``, ``op_kernel``, ``random_seed``,
``reference_kernels``, ``runnable_operators``.
"""
