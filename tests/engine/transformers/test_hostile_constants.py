"""Constants that transformers would make, with sizes that only a hostile model declares."""

from __future__ import annotations

import numpy as np

from ortpkg.graph.graph import Graph
from ortpkg.runtime.engine.transformers.conv_constants import ConvConstants
from ortpkg.runtime.engine.transformers.rewriting import add_constant
from ortpkg.runtime.engine.transformers.transform_context import TransformContext

TRILLION = 10**12


def test_a_convolution_of_no_channel_to_a_trillion_is_left_as_it_is() -> None:
    graph = Graph("g")
    graph.set_inputs(["x"])
    weight = add_constant(graph, "w", np.zeros((TRILLION, 0, 1), np.float32))
    node = graph.add_node("Conv", ["x", weight], ["y"], name="n")

    assert ConvConstants.of(graph, node, TransformContext()) is None
