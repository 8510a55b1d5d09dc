"""Offers several versions of an operation's kernels, of which the sizes of a run choose one.

A schedule that would cut an operation differently for few rows than for many, where only a run
knows how many there are, returns what :func:`versions_by_size` makes of both ways::

    return versions_by_size(
        space.rows,
        Version(most=1, make=lambda: row_times_matrix(product)),
        Version(make=lambda: blocks_of_rows(product)),
    )

Where the size is a number, only the version for it is made: a schedule need not ask. Otherwise all
are compiled, and the program has the kernels of each as steps with a condition
(:class:`~ortpkg.machine_code.program.Condition`). The launch plan of a run's shapes leaves out the
steps, and the memory between them, of all versions but one: what is left out costs no time. Kernels
that hand on values through temporary tensors make some for each version. Constants that versions
pack in the same layout are stored once, so versions should share layouts. A version may itself be
made of versions by another size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ortpkg.codegen.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.machine_code.program import Condition
from ortpkg.shapes.expressions import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One way to compute an operation.

    Attributes:
        most: the largest size that it is for; None: there is no limit.
        make: makes the kernels, in the order in which they run.
    """

    most: int | None = None
    make: Callable[[], list[ScheduledKernel]]


def versions_by_size(size: Size, *versions: Version) -> list[ScheduledKernel]:
    """The kernels of those versions that may run.

    Args:
        size: what decides.
        versions: for larger and larger sizes; each is for what is above the one before, and the
            last one has no limit.
    """
    limits = [each.most for each in versions[:-1]]
    known = [each for each in limits if each is not None]
    if versions[-1].most is not None or len(known) < len(limits) or known != sorted(set(known)):
        raise ValueError(f"versions up to {limits} do not follow each other to a last one without")
    if isinstance(size, int):
        return next(each for each in versions if each.most is None or size <= each.most).make()
    kernels: list[ScheduledKernel] = []
    least = 0
    for version in versions:
        condition = Condition(size=size, least=least, most=version.most)
        kernels += [
            replace(each, conditions=(condition, *each.conditions)) for each in version.make()
        ]
        least = 0 if version.most is None else version.most + 1
    return kernels
