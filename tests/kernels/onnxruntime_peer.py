"""One operator on onnxruntime, for tests that hold our kernels against it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from ortpkg.graph.types import element_type_of
from ortpkg.runtime.kernels.op_kernel import Tensor


def run_on_onnxruntime(
    op_type: str,
    *inputs: Tensor | None,
    domain: str = "com.microsoft",
    outputs: int = 1,
    **attributes: Any,
) -> Any:
    """The operator's output on onnxruntime's CPU provider, in a model of opset 21.

    A tuple where ``outputs`` > 1.
    """
    onnxruntime = pytest.importorskip("onnxruntime")
    names = ["" if value is None else f"x{slot}" for slot, value in enumerate(inputs)]
    node = helper.make_node(
        op_type, names, [f"y{i}" for i in range(outputs)], domain=domain, **attributes
    )
    graph = onnx.GraphProto(name="peer", node=[node])
    feeds: dict[str, Tensor] = {}
    for name, value in zip(names, inputs, strict=True):
        if value is not None:
            graph.input.append(
                helper.make_tensor_value_info(name, int(element_type_of(value.dtype)), value.shape)
            )
            feeds[name] = value
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output)
    imports = {domain: 1} | {"": 21}
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid(*item) for item in imports.items()]
    )
    model.ir_version = 10
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # to start and end threads takes longer than the operator
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found: Sequence[Tensor] = [np.asarray(value) for value in session.run(None, feeds)]
    return found[0] if outputs == 1 else tuple(found)
