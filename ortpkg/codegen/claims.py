"""Which nodes can be compiled: those that are lowered to operations that have a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ortpkg.codegen.assembly.size_guards import size_guards
from ortpkg.codegen.layouts.channel_blocking import block_channels
from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.lowering.lowering_scope import LoweringScope, NotLoweredError
from ortpkg.codegen.lowering.operator_lowerings import lower_graph, lower_node
from ortpkg.codegen.partition_worth import reason_against_piece
from ortpkg.codegen.passes import optimized
from ortpkg.codegen.schedules.schedule import reason_against
from ortpkg.codegen.schedules.schedules_by_form import SchedulesByForm
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.model import Model
from ortpkg.graph.topology import topological_order
from ortpkg.shapes.expressions import Expression, Size, TooLargeError, symbols_of
from ortpkg.shapes.inference import infer_sizes
from ortpkg.shapes.knowledge import Knowledge, KnownTensor

__all__ = ["reason_against_piece", "reasons_against", "reasons_in_partition"]

_IR_VERSION = 10


def reasons_against(
    graph: Graph, nodes: Iterable[Node], known: Mapping[str, Knowledge]
) -> Mapping[int, str]:
    """Why nodes are not compiled, by index; those that are left out can be.

    Args:
        graph: the nodes are of it.
        nodes: each after those whose outputs it takes.
        known: what inference found of the graph's values.
    """
    found = {}
    scope = LoweringScope(graph, known)
    for node in nodes:
        count = len(scope.operations)
        try:
            lower_node(scope, node)
        except NotLoweredError as error:
            found[node.index] = str(error)
            continue
        except TooLargeError:
            found[node.index] = "the formula of a size is too large"
            continue
        for operation in scope.operations[count:]:
            reason = reason_against(operation)
            if reason is not None:
                found[node.index] = reason
    return found


def reasons_in_partition(body: Graph, schedules: SchedulesByForm) -> Mapping[int, str]:
    """Why nodes of a partition are not compiled after all, seen from inside of it, by index.

    What a graph knows of a value may be lost where its maker is outside: elements of a shape that
    comes in as a tensor. Then a size is in no input's shape, and nobody could tell it before a run.

    ``schedules``: for the CPU that it is to be compiled for; has its schedules afterwards.
    """
    known = infer_sizes(Model(graph=body, ir_version=_IR_VERSION))
    bound = {
        size.symbol
        for name in body.inputs
        for size in _sizes(known, name)
        if isinstance(size, Expression) and size.symbol is not None
    }
    nodes = [body.node(index) for index in topological_order(body)]
    found = dict(reasons_against(body, nodes, known))
    if not found and (reason := _reason_against_whole(body, known, schedules)) is not None:
        return dict.fromkeys((node.index for node in nodes), reason)
    for node in nodes:
        used = [size for name in node.outputs if name for size in _sizes(known, name)]
        if any(symbol not in bound for size in used for symbol in symbols_of(size)):
            found.setdefault(node.index, "a size of what it makes is in no input of its partition")
    return found


def _reason_against_whole(
    body: Graph, known: Mapping[str, Knowledge], schedules: SchedulesByForm
) -> str | None:
    """Why a partition of nodes that can be lowered cannot be scheduled; None where it can."""
    try:
        lowered = lower_graph(body, known, body.name)
        size_guards(lowered)
        model = schedules.model
        fused = optimized(lowered, multiplies_bfloat=model.multiplies_bfloat)
        program = block_channels(fused, model.lanes(Scalar.F32))
        constants = frozenset(program.constants)
        for operation in program.operations:
            schedules.schedule(operation, constants)
    except NotLoweredError as error:
        return str(error)
    except TooLargeError:
        return "the formula of a size is too large"
    return None


def _sizes(known: Mapping[str, Knowledge], name: str) -> tuple[Size, ...]:
    value = known.get(name)
    return (value.shape or ()) if isinstance(value, KnownTensor) else ()
