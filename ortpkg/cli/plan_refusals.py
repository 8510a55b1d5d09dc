"""Output of ``ortpkg plan`` about nodes that providers left to later ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ortpkg.cli.rendering import Output
from ortpkg.cli.table_layout import Column
from ortpkg.foundations.ep_names import short_ep_names

if TYPE_CHECKING:
    from ortpkg.runtime.engine.partition import Partition


def print_refusals(
    partitions: Sequence[Partition], output: Output, *, shows_nodes: bool = False
) -> None:
    """Print the reasons with their number of nodes, or every node with its reason.

    Nothing is printed if no provider states a reason.
    """
    from ortpkg.runtime.engine.node_refusals import refusal_groups, refused_nodes  # with the engine

    groups = refusal_groups(partitions)
    if not groups:
        return
    left_by = Column("left by", short=short_ep_names)
    why = Column("why", wraps=24)
    rows: list[tuple[object, ...]] = [
        (item.provider, item.node_count, item.operators_text, item.reason) for item in groups
    ]
    output.table(
        [left_by, Column("nodes", is_numeric=True), Column("operators", wraps=16), why],
        rows,
        title="Why nodes were left to others" + ("" if shows_nodes else " (--nodes names each)"),
    )
    if shows_nodes:
        rows = [
            (item.name, item.op_type, item.graph_path or "main graph", item.provider, item.reason)
            for item in refused_nodes(partitions)
        ]
        columns = [Column("node"), Column("operator"), Column("graph", drops=1), left_by, why]
        output.table(columns, rows, title="Nodes that were left to others")
