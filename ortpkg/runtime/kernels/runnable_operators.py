"""Operators that the embedded engine runs: our kernels, registered ones, the reference."""

from __future__ import annotations

from functools import cache

import onnx.defs

from ortpkg.graph.custom_op_registry import has_custom_op
from ortpkg.runtime.kernels.cpu_kernels import cpu_kernel_registry
from ortpkg.runtime.kernels.reference_kernels import has_reference_implementation


def has_kernel(domain: str, op_type: str) -> bool:
    """Return True if the CPU provider has a kernel, also a registered one, for any version.

    "" and "ai.onnx" are the same domain. A session checks types and versions.
    """
    name = "" if domain == "ai.onnx" else domain
    return _has_builtin_kernel(name, op_type) or has_custom_op(name, op_type)


@cache
def _has_builtin_kernel(domain: str, op_type: str) -> bool:
    if any(
        (definition.domain, definition.op_type) == (domain, op_type)
        for definition in cpu_kernel_registry().definitions()
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
