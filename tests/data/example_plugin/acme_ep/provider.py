"""The heavy side, made once per session: claims nodes, compiles them, computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ortpkg.api.execution_providers import (
    ComputeCapability,
    ElementType,
    EpDevice,
    ExecutionProvider,
    FusedNode,
    GraphViewer,
    MetaDef,
    Node,
    NodeComputeInfo,
    OpKernelContext,
)


class AcmeExecutionProvider(ExecutionProvider):
    """Runs every Relu of floats as a sub-graph of its own."""

    backend = "acme"

    def __init__(self, *, ep_devices: Sequence[EpDevice], options: Mapping[str, str]) -> None:
        super().__init__("AcmeExecutionProvider", ep_devices=ep_devices, options=options)

    def get_capability(
        self, viewer: GraphViewer, types_of: Callable[[Node], Mapping[str, ElementType]]
    ) -> list[ComputeCapability]:
        return [
            ComputeCapability(node_indices=(node.index,), meta_def=_meta_def(viewer, node))
            for node in viewer.nodes
            if node.op_type == "Relu"
            and not node.domain
            and types_of(node).get("T") is ElementType.FLOAT
        ]

    def compile(self, fused_nodes: Sequence[FusedNode]) -> list[NodeComputeInfo]:
        return [NodeComputeInfo(compute=_relu) for _ in fused_nodes]


def _meta_def(viewer: GraphViewer, node: Node) -> MetaDef:
    return MetaDef(
        name=viewer.graph.make_name("AcmeRelu"), inputs=node.inputs, outputs=node.outputs
    )


def _relu(_state: Any, inputs: Sequence[Any], _context: OpKernelContext) -> Sequence[Any]:
    return [np.maximum(inputs[0], 0)]
