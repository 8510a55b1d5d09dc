"""Every operator that has a kernel has an inference function."""

from __future__ import annotations

import onnx.defs

from ortpkg.graph.shapes.operator_inference import find_inference
from ortpkg.runtime.kernels.cpu_kernels import cpu_kernel_registry
from ortpkg.runtime.kernels.runnable_operators import has_kernel


def test_every_operator_with_a_kernel_has_an_inference_function() -> None:
    own = {(each.domain, each.op_type) for each in cpu_kernel_registry().definitions()}
    known = {
        (schema.domain, schema.name)
        for schema in onnx.defs.get_all_schemas()
        if has_kernel(schema.domain, schema.name)
    }

    assert {key for key in own | known if find_inference(*key) is None} == set()


def test_of_other_operators_nothing_is_said() -> None:
    assert find_inference("acme.test", "Relu") is None
