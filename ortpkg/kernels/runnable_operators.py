"""Which operators the embedded engine runs: our kernels, registered ones, the reference."""

from __future__ import annotations

from functools import cache

import onnx.defs

from ortpkg.kernels.cpu_kernels import cpu_kernel_registry
from ortpkg.kernels.custom_ops import has_custom_op
from ortpkg.kernels.reference_kernels import has_reference_implementation


def has_kernel(domain: str, op_type: str) -> bool:
    """Whether the CPU provider has a kernel, also a registered one, for any version.

    "" and "ai.onnx" are the same domain. Types and versions are the matter of a session.
    """
    name = "" if domain == "ai.onnx" else domain
    return _has_own_kernel(name, op_type) or has_custom_op(name, op_type)


@cache
def _has_own_kernel(domain: str, op_type: str) -> bool:
    if any(
        (each.domain, each.op_type) == (domain, op_type)
        for each in cpu_kernel_registry().definitions()
    ):
        return True
    versions = {
        schema.since_version
        for schema in onnx.defs.get_all_schemas_with_history()
        if (schema.domain, schema.name) == (domain, op_type)
    }
    return any(
        has_reference_implementation(domain, op_type, version)
        for version in sorted(versions, reverse=True)
    )
