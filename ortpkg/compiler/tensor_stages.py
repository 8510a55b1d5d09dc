"""Stages of a partition as tensor programs: lowered, fused, and blocked for kernels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ortpkg.compiler.assembly.size_guards import size_guards
from ortpkg.compiler.layouts.channel_blocking import block_channels
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.bound_sizes import with_bound_elements
from ortpkg.compiler.lowering.operator_lowerings import lower_graph
from ortpkg.compiler.machine_code.program import Guard
from ortpkg.compiler.passes import optimized
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.schedules.schedules_by_form import SchedulesByForm
from ortpkg.compiler.tensor_ir.operations import Operation
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from ortpkg.compiler.tensor_ir.tensor_verifier import verify_operations
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.model import Model
from ortpkg.graph.shapes.inference import infer_sizes

_IR_VERSION = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorStages:
    """A graph as tensor programs, one for each stage before schedules.

    Attributes:
        lowered: program right after lowering.
        fused: program after fusion.
        blocked: program in the memory layouts that are compiled.
        guards: conditions that the code checks on sizes.
        kernels: operations of the last stage with their kernels, in the order in which they run.
    """

    lowered: TensorProgram
    fused: TensorProgram
    blocked: TensorProgram
    guards: tuple[Guard, ...]
    kernels: Sequence[tuple[Operation, ScheduledKernel]]

    @classmethod
    def of(cls, graph: Graph, schedules: SchedulesByForm) -> TensorStages:
        """Return the stages of a graph.

        Raises:
            NotLoweredError: if a node cannot be lowered.
        """
        inferred = infer_sizes(Model(graph=graph, ir_version=_IR_VERSION))
        knowledge = with_bound_elements(graph, inferred)
        return cls.of_lowered(lower_graph(graph, knowledge, graph.name), schedules)

    @classmethod
    def of_lowered(cls, lowered: TensorProgram, schedules: SchedulesByForm) -> TensorStages:
        """Return the stages of a lowered program.

        Raises:
            NotLoweredError: if sizes contradict each other.
        """
        model = schedules.model
        guards = size_guards(lowered)
        fused = optimized(lowered, multiplies_bfloat=model.multiplies_bfloat)
        blocked = block_channels(fused, model.lanes(Scalar.F32))
        return cls(
            lowered=lowered,
            fused=fused,
            blocked=blocked,
            guards=guards,
            kernels=schedules.kernels_of(blocked),
        )

    def verify(self) -> None:
        """Verify the operations that each stage made.

        Operations that a stage left unchanged are checked only for their order: they were verified
        when the guards were made.

        Raises:
            OperationFaultError: if a stage made an invalid operation.
        """
        verified = set(map(id, self.lowered.operations))
        for stage in (self.fused, self.blocked):
            verify_operations(stage.operations, verified)
            verified.update(map(id, stage.operations))


class ExaminedStages:
    """Stages of graphs that were examined, each kept until its graph is compiled."""

    def __init__(self) -> None:
        self._stages: dict[Hashable, tuple[Graph, TensorStages]] = {}

    def keep(self, key: Hashable, graph: Graph, stages: TensorStages) -> None:
        """Keep the stages, and the graph, whose parts the key identifies by address."""
        self._stages[key] = (graph, stages)

    def take(self, key: Hashable) -> TensorStages | None:
        """Return the stages under that key and forget them; None if there are none."""
        return self._stages.pop(key, (None, None))[1]


def graph_key(graph: Graph) -> Hashable:
    """Return a key that is equal for graphs with the same nodes, attributes, constants and types.

    It holds addresses, so one of the graphs must stay alive. Inference changes the key, as it
    writes types.
    """
    return (
        graph.inputs,
        graph.outputs,
        tuple(graph.opset_imports.items()),
        tuple([graph.known_elements.get(name) for name in graph.inputs]),
        frozenset(graph.types.items()),
        frozenset((name, id(initializer)) for name, initializer in graph.initializers.items()),
        frozenset([_node_key(node) for node in graph.nodes]),
    )


def _node_key(node: Node) -> Hashable:
    attributes = tuple([(name, id(attribute)) for name, attribute in node.attributes.items()])
    return (
        node.name,
        node.domain,
        node.op_type,
        node.since_version,
        node.inputs,
        node.outputs,
        attributes,
    )
