"""Plans from a few lines of text: what the planner tests have in common.

A graph is written as lines ``output = Op(input, input)``. ``Relu``-like operators may work in
place, ``View`` is an alias of its input, ``Own`` brings its own memory, every other operator only
asks for planned memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from ortpkg.graph.graph import ArrayInitializer, Graph
from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.topology import topological_order
from ortpkg.graph.types import ElementType
from ortpkg.runtime.engine.allocation_planner import AllocationPlan, AllocKind, plan_allocations
from ortpkg.runtime.engine.execution_plan import ExecutionPlan, OrtDevice, create_execution_plan
from ortpkg.runtime.kernels.kernel_registry import KernelDef
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelInfo
from ortpkg.runtime.providers.execution_provider import GraphViewer

PROVIDER = "FakeExecutionProvider"
DEVICE = OrtDevice("Fake", 64)
_TRAITS: dict[str, tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...], bool]] = {
    "Relu": (((0, 0),), (), True),
    "Add": (((0, 0), (1, 0)), (), True),
    "View": ((), ((0, 0),), True),
    "Own": ((), (), False),
}


def fake_kernel(op_type: str) -> KernelDef:
    """The definition of a kernel that the planner tests never run."""

    def factory(info: OpKernelInfo) -> Compute:
        raise AssertionError("planning makes no kernels")

    in_place, alias, uses_output_buffer = _TRAITS.get(op_type, ((), (), True))
    return KernelDef(
        op_type=op_type,
        since=(1,),
        factory=factory,
        in_place=in_place,
        alias=alias,
        uses_output_buffer=uses_output_buffer,
    )


def graph_of(text: str, *, inputs: str = "x", outputs: str = "y", weights: str = "") -> Graph:
    """The graph that ``text`` describes; names are separated by spaces."""
    graph = Graph("test")
    graph.set_inputs(inputs.split())
    for name in weights.split():
        graph.add_initializer(ArrayInitializer(name, np.zeros(1, np.float32), ElementType.FLOAT))
    for line in filter(None, map(str.strip, text.splitlines())):
        match = re.fullmatch(r"([\w, ]*) = (\w+)\(([\w, ]*)\)", line)
        assert match is not None, line
        made, op_type, used = match.groups()
        names = [
            [name.strip() for name in part.split(",")] if part.strip() else []
            for part in (used, made)
        ]
        node = graph.add_node(op_type, *names, name=f"{op_type}_{names[1][0]}")
        graph.assign(node, PROVIDER)
    graph.set_outputs(outputs.split())
    return graph


def execution_plan_of(graph: Graph) -> ExecutionPlan:
    viewer = GraphViewer(graph, topological_order(graph))
    return create_execution_plan(
        viewer, {PROVIDER: DEVICE}, {node.index: fake_kernel(node.op_type) for node in graph.nodes}
    )


class Planned:
    """A planned graph, asked by name."""

    def __init__(
        self,
        text: str,
        *,
        sizes: Mapping[str, Size | None] | None = None,
        default: Size | None = 256,
        enable_reuse: bool = True,
        parallel: bool = False,
        inputs: str = "x",
        outputs: str = "y",
        weights: str = "",
    ) -> None:
        self.graph = graph_of(text, inputs=inputs, outputs=outputs, weights=weights)
        self.plan = execution_plan_of(self.graph)
        self.sizes = [
            (sizes or {}).get(self.plan.values.name_of(i), default)
            for i in range(len(self.plan.values))
        ]
        self.allocation: AllocationPlan = plan_allocations(
            self.plan, self.sizes, enable_reuse=enable_reuse, parallel=parallel
        )

    def kind(self, name: str) -> AllocKind:
        return self.allocation.values[self.plan.values.index_of(name)].alloc_kind

    def buffer(self, name: str) -> str:
        """The name of the value whose buffer ``name`` lies in."""
        return self.plan.values.name_of(
            self.allocation.values[self.plan.values.index_of(name)].reused_buffer
        )

    def lifetime(self, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        counter = self.allocation.values[self.plan.values.index_of(name)].program_counter
        return counter.starts, counter.ends

    def released(self, step: int) -> list[str]:
        return sorted(self.plan.values.name_of(index) for index in self.allocation.releases[step])
