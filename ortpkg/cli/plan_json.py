"""Output of ``ortpkg plan --json``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ortpkg.cli.plan_costs import copies_json, policies_json

if TYPE_CHECKING:
    from ortpkg.runtime.session.session_plan import GraphPlan, SessionPlan


def plan_json(plan: SessionPlan, graphs: Iterable[GraphPlan]) -> dict[str, Any]:
    """Return the plan as JSON, without its sizes; ``graphs`` are all of its graphs."""
    return {
        "providers": list(plan.providers),
        "partitions": [
            {
                "provider": partition.provider,
                "graph": partition.graph_path,
                "fused_node": partition.fused_node or None,
                "nodes": [
                    {
                        "name": name,
                        "op_type": op_type,
                        "left_by": dict(partition.refusals.get(name, {})),
                    }
                    for name, op_type in zip(partition.node_names, partition.op_types, strict=True)
                ],
            }
            for partition in plan.partitions
        ],
        "policies": policies_json(plan),
        "graphs": [_graph_json(graph) for graph in graphs],
    }


def _graph_json(graph: GraphPlan) -> dict[str, Any]:
    return {
        "path": graph.path,
        "peak_nbytes": graph.peak_nbytes,
        "least_possible_nbytes": graph.least_possible_nbytes,
        "unshared_nbytes": graph.unshared_nbytes,
        "weight_nbytes": graph.weight_nbytes,
        "unknown_count": graph.unknown_count,
        "peak_formulas": list(graph.peak_formulas),
        "peak_nbytes_by_memory": dict(graph.peaks),
        "copies": copies_json(graph),
        "steps": [
            {
                "step": node.step,
                "name": node.name,
                "op_type": node.op_type,
                "domain": node.domain,
                "provider": node.provider,
                "kernel": node.kernel,
                "inputs": list(node.inputs),
                "outputs": list(node.outputs),
            }
            for node in graph.nodes
        ],
        "values": [
            {
                "name": value.name,
                "kind": value.kind.value,
                "device": value.device,
                "buffer": value.buffer,
                "nbytes": value.nbytes,
                "size": value.size,
                "offset": value.offset,
                "first_step": value.first_step,
                "last_step": value.last_step,
            }
            for value in graph.values
        ],
    }
