"""A small builder of ONNX models: named nodes and initializers, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

OPSET = 17
IR_VERSION = 8
"""What opset 17 came with; every onnxruntime from 1.12 on reads it."""

INPUT = "image"
OUTPUT = "logits"


class GraphBuilder:
    """Collects nodes and initializers of a graph from ``image`` to ``logits``."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: dict[str, onnx.TensorProto] = {}

    def add_initializer(self, name: str, array: npt.NDArray[Any]) -> str:
        """Adds a constant, once per name; gives its name."""
        self._initializers.setdefault(
            name, onnx.numpy_helper.from_array(np.ascontiguousarray(array), name)
        )
        return name

    def add_node(self, op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Adds a node with one output and names it after that; gives the output's name."""
        node = onnx.helper.make_node(
            op_type, list(inputs), [output], name=f"{op_type}:{output}", **attributes
        )
        self._nodes.append(node)
        return output

    def build(
        self, *, batch: int | str, doc_string: str, metadata: Mapping[str, str]
    ) -> onnx.ModelProto:
        """The finished model, checked in full.

        Args:
            batch: a size, or the symbol of a dynamic batch.
            doc_string: what the model is.
            metadata: becomes the model's ``metadata_props``, in this order.
        """
        image = onnx.helper.make_tensor_value_info(
            INPUT,
            onnx.TensorProto.FLOAT,
            [batch, 1, 8, 8],
            doc_string="Grey levels from 0 (paper) to 16 (ink).",
        )
        logits = onnx.helper.make_tensor_value_info(
            OUTPUT,
            onnx.TensorProto.FLOAT,
            [batch, 10],
            doc_string="One score per digit 0 to 9; the greatest wins.",
        )
        graph = onnx.helper.make_graph(
            self._nodes,
            "digits",
            [image],
            [logits],
            list(self._initializers.values()),
            doc_string=doc_string,
        )
        model = onnx.helper.make_model(
            graph,
            opset_imports=[onnx.helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="scripts/train_digits.py",
            model_version=1,
            doc_string=doc_string,
        )
        onnx.helper.set_model_props(model, dict(metadata))
        onnx.checker.check_model(model, full_check=True)
        return model
