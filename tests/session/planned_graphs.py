"""Plans of graphs that nobody planned, for what only shows them."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.runtime.engine.allocation_planner import AllocKind
from ortpkg.runtime.session.session_plan import GraphPlan, PlannedNode, PlannedValue


def planned_value(
    name: str,
    lies: tuple[int, int],
    lives: tuple[int, int | None],
    *,
    buffer: str = "",
    device: str = "Cpu",
) -> PlannedValue:
    """A value in a block: (offset, bytes) and (first step, last step)."""
    return PlannedValue(
        name=name,
        kind=AllocKind.REUSE if buffer else AllocKind.ALLOCATE,
        device=device,
        buffer=buffer or name,
        nbytes=lies[1],
        size=str(lies[1]),
        offset=lies[0],
        first_step=lives[0],
        last_step=lives[1],
    )


def planned_graph(
    step_count: int,
    values: Sequence[PlannedValue],
    *,
    unknown: int = 0,
    providers: Sequence[str] = ("CPUExecutionProvider",),
) -> GraphPlan:
    """A plan of so many steps, with ``values`` in its blocks.

    ``providers``: of the first steps; the last one is that of all after them.
    """
    peaks: dict[str, int] = {}
    for value in values:
        top = (value.offset or 0) + (value.nbytes or 0)
        peaks[value.device] = max(peaks.get(value.device, 0), top)
    return GraphPlan(
        path="",
        nodes=tuple(
            _node(step, providers[min(step, len(providers) - 1)]) for step in range(step_count)
        ),
        values=tuple(values),
        peak_nbytes=sum(peaks.values()),
        least_possible_nbytes=0,
        unshared_nbytes=sum(value.nbytes or 0 for value in values),
        weight_nbytes=0,
        unknown_count=unknown,
        peak_formulas=(),
        peaks=peaks,
    )


def _node(step: int, provider: str) -> PlannedNode:
    return PlannedNode(
        step=step,
        name=f"node_{step}",
        op_type=f"Op{step}",
        domain="",
        provider=provider,
        kernel="elementwise",
        inputs=(),
        outputs=(),
    )
