"""Costs in ``ortpkg plan``: copies between memories, and both policies of partitioning."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.cli.table_layout import Column
from ortpkg.foundations.ep_names import short_ep_names
from ortpkg.foundations.quantities import duration_text

if TYPE_CHECKING:
    from ortpkg.runtime.engine.partition_policy import PartitionChoice, WeighedPlacement
    from ortpkg.runtime.session.session_plan import GraphPlan, SessionPlan


def print_policies(plan: SessionPlan, output: Output) -> None:
    """Print the first-come and the cost policy side by side, for each graph.

    Nothing is printed without costs.
    """
    if not plan.choices:
        return
    numbers = [Column(name, is_numeric=True) for name in ("nodes take", "transfers", "together")]
    columns = [
        Column("graph", drops=1),
        Column("policy"),
        *numbers,
        Column("nodes", short=short_ep_names, wraps=16),
    ]
    rows = [
        (choice.graph_path or "main graph", name, *_weighed_row(weighed))
        for choice in plan.choices
        for name, weighed in (("first-come", choice.first_come), ("cost", choice.cost))
    ]
    output.table(columns, rows, title="Policies of partitioning")
    for choice in plan.choices:
        output.line(_verdict(choice), hang="  ")


def print_memories(graph: GraphPlan, output: Output) -> None:
    """Print the peak of each memory and the copies between them, if there are several."""
    if len(graph.peaks) > 1:
        peaks = ", ".join(f"{name} {nbytes_text(peak)}" for name, peak in graph.peaks.items())
        output.line(f"peak by memory: {peaks}", hang="  ")
    if graph.copies:
        output.line(_copies_summary(graph), hang="  ")


def copies_json(graph: GraphPlan) -> list[dict[str, Any]]:
    """Return the copies of one graph, in order, as JSON."""
    return [
        {
            "step": copy.step,
            "value": copy.value,
            "source": copy.source,
            "target": copy.target,
            "nbytes": copy.nbytes,
            "duration_s": copy.duration_s,
        }
        for copy in graph.copies
    ]


def policies_json(plan: SessionPlan) -> list[dict[str, Any]]:
    """Return the results of both policies for each graph as JSON."""
    return [
        {
            "graph": choice.graph_path,
            "first_come": _weighed_json(choice.first_come),
            "cost": _weighed_json(choice.cost),
            "is_exact": choice.is_exact,
            "differs": choice.differs,
            "sources": dict(choice.sources),
        }
        for choice in plan.choices
    ]


def _weighed_row(weighed: WeighedPlacement) -> tuple[str, str, str, str]:
    counts = ", ".join(f"{count} {provider}" for provider, count in weighed.node_counts.items())
    times = (weighed.compute_s, weighed.transfer_s, weighed.total_s)
    first, second, third = map(duration_text, times)
    return (
        first,
        second,
        third,
        counts if weighed.is_within_limits else f"{counts} (more weights than memory)",
    )


def _verdict(choice: PartitionChoice) -> str:
    where = f"graph {choice.graph_path}" if choice.graph_path else "main graph"
    certainty = (
        "nothing is cheaper"
        if choice.is_exact
        else "the cheapest that was found; not all could be tried"
    )
    sources = ", ".join(f"{provider} {source}" for provider, source in choice.sources.items())
    outcome = "another partition than" if choice.differs else "the same as"
    return f"{where}: cost gives {outcome} first come; {certainty}; costs: {sources}"


def _weighed_json(weighed: WeighedPlacement) -> dict[str, Any]:
    return {
        "compute_s": weighed.compute_s,
        "transfer_s": weighed.transfer_s,
        "total_s": weighed.total_s,
        "nodes": dict(weighed.node_counts),
        "is_within_limits": weighed.is_within_limits,
    }


def _copies_summary(graph: GraphPlan) -> str:
    """Return a summary of the copies in one run of a graph (one iteration of a loop's body)."""
    counts = Counter((copy.source, copy.target) for copy in graph.copies)
    ways = ", ".join(
        f"{count} from {source} to {target}" for (source, target), count in counts.items()
    )
    sized_copies = [copy for copy in graph.copies if copy.nbytes is not None]
    text = f"copies between memories: {len(graph.copies)} ({ways})"
    if sized_copies:
        spent = sum(copy.duration_s or 0.0 for copy in sized_copies)
        text += (
            f", {nbytes_text(sum(copy.nbytes or 0 for copy in sized_copies))}, about"
            f" {duration_text(spent)}"
        )
    if len(sized_copies) < len(graph.copies):
        text += f"; {len(graph.copies) - len(sized_copies)} of a size that is known only in a run"
    return text
