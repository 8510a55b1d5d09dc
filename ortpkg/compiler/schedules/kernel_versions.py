"""Offers several versions of an operation's kernels, chosen by the sizes of a run.

A schedule that tiles an operation differently for few rows than for many, where only a run knows
the number of rows, returns the result of :func:`versions_by_size` for both::

    return versions_by_size(
        space.rows,
        Version(most=1, make=lambda: row_times_matrix(product)),
        Version(make=lambda: blocks_of_rows(product)),
    )

If the size is a number, only its version is made, so a schedule need not check. Otherwise all are
compiled, and the program has the kernels of each as steps with a condition
(:class:`~ortpkg.compiler.machine_code.program.Condition`). The launch plan of a run's shapes
leaves out the steps, and the memory between them, of all versions but one, so the others cost no
time. Each version makes its own temporary tensors. Constants that versions pack in the same layout
are stored once, so versions should share layouts. A version may itself consist of versions by
another size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ortpkg.compiler.machine_code.program import Condition
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.graph.shapes.expressions import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One way to compute an operation.

    Attributes:
        most: the largest size that it is for; None for no limit.
        make: function that makes the kernels, in the order in which they run.
    """

    most: int | None = None
    make: Callable[[], list[ScheduledKernel]]


def versions_by_size(size: Size, *versions: Version) -> list[ScheduledKernel]:
    """Return the kernels of the versions that may run.

    Args:
        size: the size that decides.
        versions: versions for larger and larger sizes; each is for sizes above the previous one's
            limit, and the last has no limit.

    Raises:
        ValueError: if limits are not ascending, or the last version has one.
    """
    limits = [version.most for version in versions[:-1]]
    numbers = [limit for limit in limits if limit is not None]
    if (
        versions[-1].most is not None
        or len(numbers) < len(limits)
        or numbers != sorted(set(numbers))
    ):
        raise ValueError(f"versions up to {limits} do not follow each other to a last one without")
    if isinstance(size, int):
        return next(
            version for version in versions if version.most is None or size <= version.most
        ).make()
    kernels: list[ScheduledKernel] = []
    least = 0
    for version in versions:
        condition = Condition(size=size, least=least, most=version.most)
        kernels += [
            replace(kernel, conditions=(condition, *kernel.conditions)) for kernel in version.make()
        ]
        least = 0 if version.most is None else version.most + 1
    return kernels
