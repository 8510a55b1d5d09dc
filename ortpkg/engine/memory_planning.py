"""Choose between two allocation plans by what their memory pattern takes.

Reuse by size gives a buffer to later values of its size, and so ties all their lifetimes to one
place. Where runs allocate one by one that saves memory. Where a pattern lays everything out, the
layout shares the bytes anyway, of whatever size, and the ties can only be in its way. Neither
always wins, so both are planned and measured.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.engine.allocation_planner import AllocationPlan, plan_allocations
from ortpkg.engine.execution_plan import ExecutionPlan
from ortpkg.engine.memory_pattern import plan_memory_pattern
from ortpkg.shapes.expressions import Size, evaluate, symbols_of

#: What a symbolic dimension counts as while plans are compared.
_NOMINAL_DIMENSION = 64


def plan_memory(
    plan: ExecutionPlan,
    sizes: Sequence[Size | None],
    *,
    enable_reuse: bool = True,
    parallel: bool = False,
    has_pattern: bool = True,
) -> AllocationPlan:
    """The allocation plan to run with; for the arguments see :func:`plan_allocations`.

    Args:
        plan, sizes, enable_reuse, parallel: as there.
        has_pattern: whether runs compute in blocks that a memory pattern lays out
            (``enable_mem_pattern``).
    """
    shared = plan_allocations(plan, sizes, enable_reuse=enable_reuse, parallel=parallel)
    if not enable_reuse or parallel or not has_pattern:
        return shared
    apart = plan_allocations(plan, sizes, enable_reuse_by_size=False)
    return apart if _nominal_peak(plan, apart) < _nominal_peak(plan, shared) else shared


def _nominal_peak(plan: ExecutionPlan, allocation: AllocationPlan) -> int:
    """Bytes that the pattern would take, were every symbol :data:`_NOMINAL_DIMENSION`."""
    sizes: dict[int, int] = {}
    for owner in allocation.buffers:
        size = allocation.values[owner].size
        if size is not None:
            sizes[owner] = _nominal(size)
    return plan_memory_pattern(allocation, sizes, plan.devices).peak_size


def _nominal(size: Size) -> int:
    try:
        return max(evaluate(size, {each.name: _NOMINAL_DIMENSION for each in symbols_of(size)}), 0)
    except (ValueError, ZeroDivisionError):  # the symbols cannot all be equal
        return 0
