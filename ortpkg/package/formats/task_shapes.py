"""Check that outputs have answers of the kind that a task compares (samples.json, ``task``).

A task that compares nothing would accept every model, so it is refused everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.package.formats.samples import TaskKind

#: Fewer samples have no order of neighbours.
LEAST_NEIGHBOURS = 3
_WHOLE_NUMBERS = "iub"
_TEXTS = "OUST"


def why_no_answers(
    kind: TaskKind, dtype_kind: str, shape: Sequence[int], *, is_batched: bool
) -> str | None:
    """Return why an output has no answers that could differ; None if it has some.

    Args:
        kind: the answers that the task compares.
        dtype_kind: of the output's elements, as numpy's ``dtype.kind``.
        shape: of the whole expected output.
        is_batched: True if its leading axis enumerates samples.
    """
    sample_shape = shape[1:] if is_batched else shape
    if kind is TaskKind.CLASS:
        has_scores = dtype_kind not in _WHOLE_NUMBERS + _TEXTS
        if has_scores and (not sample_shape or sample_shape[-1] < 2):
            return "has one score for each sample: a top class needs two or more"
        return None
    if kind is TaskKind.NEIGHBOURS:
        return _why_no_neighbours(dtype_kind, shape, is_batched=is_batched)
    if dtype_kind not in _WHOLE_NUMBERS + _TEXTS:
        return "has floating-point numbers: a text needs texts or tokens"
    return None


def _why_no_neighbours(dtype_kind: str, shape: Sequence[int], *, is_batched: bool) -> str | None:
    if dtype_kind in _TEXTS:
        return "has texts: neighbours need vectors of numbers"
    has_rows = is_batched or len(shape) > 1
    count = shape[0] if has_rows else 1
    if count < LEAST_NEIGHBOURS:
        return f"has {count} of the {LEAST_NEIGHBOURS} samples that an order of neighbours needs"
    width = 1
    for size in shape[1:]:
        width *= size
    return "has one number for each sample, which has no direction" if width < 2 else None
