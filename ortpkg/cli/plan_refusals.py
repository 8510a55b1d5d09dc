"""What ``ortpkg plan`` says of nodes that providers left to those after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ortpkg.cli.rendering import Output
from ortpkg.cli.table_layout import Column
from ortpkg.ep_names import short_ep_names

if TYPE_CHECKING:
    from ortpkg.engine.partition import Partition


def print_refusals(
    partitions: Sequence[Partition], output: Output, *, shows_nodes: bool = False
) -> None:
    """The reasons, with how many nodes each is for; or every node with its reason.

    Prints nothing where no provider says why it left a node.
    """
    from ortpkg.engine.node_refusals import refusal_groups, refused_nodes  # with the engine

    groups = refusal_groups(partitions)
    if not groups:
        return
    left_by = Column("left by", short=short_ep_names)
    why = Column("why", wraps=24)
    rows: list[tuple[object, ...]] = [
        (each.provider, each.node_count, each.operators_text, each.reason) for each in groups
    ]
    output.table(
        [left_by, Column("nodes", is_numeric=True), Column("operators", wraps=16), why],
        rows,
        title="Why nodes were left to others" + ("" if shows_nodes else " (--nodes names each)"),
    )
    if shows_nodes:
        rows = [
            (each.name, each.op_type, each.graph_path or "main graph", each.provider, each.reason)
            for each in refused_nodes(partitions)
        ]
        columns = [Column("node"), Column("operator"), Column("graph", drops=1), left_by, why]
        output.table(columns, rows, title="Nodes that were left to others")
