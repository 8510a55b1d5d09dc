"""Choose between two allocation plans by the size of their memory pattern.

Reuse by size gives a buffer to later values of its size, and so ties all their lifetimes to one
location. That saves memory in runs that allocate one by one. If a pattern lays everything out, the
layout shares bytes of values of any size anyway, and the ties can only hurt. Neither is always
better, so both are planned and measured.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.graph.shapes.expressions import Size, evaluate, symbols_of
from ortpkg.runtime.engine.allocation_planner import AllocationPlan, plan_allocations
from ortpkg.runtime.engine.execution_plan import ExecutionPlan
from ortpkg.runtime.engine.memory_pattern import plan_memory_pattern

#: Size of a symbolic dimension while plans are compared.
_NOMINAL_DIMENSION = 64


def plan_memory(
    plan: ExecutionPlan,
    sizes: Sequence[Size | None],
    *,
    enable_reuse: bool = True,
    parallel: bool = False,
    has_pattern: bool = True,
) -> AllocationPlan:
    """Return the allocation plan to run with.

    Args:
        plan, sizes, enable_reuse, parallel: see :func:`plan_allocations`.
        has_pattern: True if runs compute in blocks that a memory pattern lays out
            (``enable_mem_pattern``).
    """
    shared = plan_allocations(plan, sizes, enable_reuse=enable_reuse, parallel=parallel)
    if not enable_reuse or parallel or not has_pattern:
        return shared
    apart = plan_allocations(plan, sizes, enable_reuse_by_size=False)
    return apart if _nominal_peak(plan, apart) < _nominal_peak(plan, shared) else shared


def _nominal_peak(plan: ExecutionPlan, allocation: AllocationPlan) -> int:
    """Return the bytes of the pattern if every symbol were :data:`_NOMINAL_DIMENSION`."""
    sizes: dict[int, int] = {}
    for owner in allocation.buffers:
        size = allocation.values[owner].size
        if size is not None:
            sizes[owner] = _nominal(size)
    return plan_memory_pattern(allocation, sizes, plan.devices).peak_size


def _nominal(size: Size) -> int:
    try:
        return max(
            evaluate(size, {variable.name: _NOMINAL_DIMENSION for variable in symbols_of(size)}), 0
        )
    except (ValueError, ZeroDivisionError):  # the symbols cannot all be equal
        return 0
