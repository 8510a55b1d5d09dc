"""Tell which nodes can be compiled: those whose operations all have a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ortpkg.compiler.faults import log_refusal
from ortpkg.compiler.lowering.bound_sizes import (
    bound_symbols,
    sizes_of,
    with_bound_elements,
)
from ortpkg.compiler.lowering.lowering_scope import LoweringScope, NotLoweredError
from ortpkg.compiler.lowering.operator_lowerings import lower_node
from ortpkg.compiler.partition_worth import reason_against_piece
from ortpkg.compiler.schedules.schedule import reason_against
from ortpkg.compiler.schedules.schedules_by_form import SchedulesByForm
from ortpkg.compiler.tensor_stages import TensorStages
from ortpkg.foundations.errors import quoted
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.model import Model
from ortpkg.graph.shapes.expressions import TooLargeError, symbols_of
from ortpkg.graph.shapes.inference import infer_sizes
from ortpkg.graph.shapes.knowledge import Knowledge
from ortpkg.graph.topology import topological_order

__all__ = ["reason_against_piece", "reasons_against", "reasons_in_partition"]

_IR_VERSION = 10


def reasons_against(
    graph: Graph, nodes: Iterable[Node], knowledge: Mapping[str, Knowledge]
) -> Mapping[int, str]:
    """Return why nodes cannot be compiled, by node index; nodes that can be are left out.

    Args:
        graph: graph of the nodes.
        nodes: nodes in topological order.
        knowledge: inferred types, shapes and elements of the graph's values.
    """
    return _reasons_of(LoweringScope(graph, knowledge), nodes)


def _reasons_of(scope: LoweringScope, nodes: Iterable[Node]) -> dict[int, str]:
    """Lower nodes into a scope; return why some cannot be lowered, by node index."""
    reasons = {}
    for node in nodes:
        count = len(scope.operations)
        try:
            lower_node(scope, node)
        except NotLoweredError as error:
            reasons[node.index] = str(error)
            continue
        except TooLargeError:
            reasons[node.index] = "the formula of a size is too large"
            continue
        except Exception as error:  # noqa: BLE001 - a bug may raise anything
            reasons[node.index] = log_refusal(error, str(node))
            continue
        for operation in scope.operations[count:]:
            reason = reason_against(operation)
            if reason is not None:
                reasons[node.index] = reason
    return reasons


class Examination(NamedTuple):
    """Result of examining a partition: reasons against it by node index, or its stages."""

    reasons: Mapping[int, str]
    stages: TensorStages | None = None


def reasons_in_partition(body: Graph, schedules: SchedulesByForm) -> Mapping[int, str]:
    """Return why nodes of a partition cannot be compiled, by index; see examine_partition."""
    return examine_partition(body, schedules).reasons


def examine_partition(body: Graph, schedules: SchedulesByForm) -> Examination:
    """Return why nodes of a partition cannot be compiled, judged from the partition alone.

    A graph may know more about a value than its partition does, such as the elements of a shape
    that enters as a tensor. A size that is in no input's shape is unknown until the partition runs.

    Args:
        body: the partition.
        schedules: schedules for the CPU to compile for; the partition's are added to them.
    """
    knowledge = infer_sizes(Model(graph=body, ir_version=_IR_VERSION))
    nodes = [body.node(index) for index in topological_order(body)]
    scope = LoweringScope(body, with_bound_elements(body, knowledge))
    reasons = _reasons_of(scope, nodes)
    stages: TensorStages | None = None
    if not reasons:
        try:
            stages = TensorStages.of_lowered(scope.program(body.name), schedules)
        except (NotLoweredError, TooLargeError) as error:
            reason = str(error) or "the formula of a size is too large"
            return Examination(dict.fromkeys((node.index for node in nodes), reason))
        except Exception as error:  # noqa: BLE001 - a bug may raise anything
            reason = log_refusal(error, f"partition {quoted(body.name)}")
            return Examination(dict.fromkeys((node.index for node in nodes), reason))
    bound = bound_symbols(body, knowledge)
    for node in nodes:
        sizes = [size for name in node.outputs if name for size in sizes_of(knowledge, name)]
        if any(symbol not in bound for size in sizes for symbol in symbols_of(size)):
            reasons[node.index] = "a size of what it makes is in no input of its partition"
    return Examination(reasons, None if reasons else stages)
