"""Models of one node, by which child processes ask libraries whether they know its operator."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import helper

_OPSET = 17
_IR_VERSION = 8


def one_node_model(domain: str, op_type: str) -> bytes:
    """Return a model of one node without inputs: hardly ever valid, but enough for a look-up."""
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph(
        [helper.make_node(op_type, [], ["y"], domain=domain)], "one", [], [output]
    )
    imports = [
        helper.make_opsetid("", _OPSET),
        *([helper.make_opsetid(domain, 1)] if domain else []),
    ]
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=imports, ir_version=_IR_VERSION)
    return bytes(model.SerializeToString())


def pairs(operators: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Return operators that came through JSON as tuples."""
    return [(domain, name) for domain, name in operators]
