"""Numbers and sizes of the parts that a dimension is divided into."""

from __future__ import annotations

from ortpkg.graph.shapes.expressions import Size, operation


def parts_count(size: Size, part: Size) -> Size:
    """Return the number of parts of a size; the last one may be smaller."""
    return operation("floor", size + part + -1, part) if part != 1 else size


def even_part(total: int, most: int, *, multiple: int = 1) -> int:
    """Return the size of equal parts of a total.

    The parts are as few as parts of at most ``most`` allow; their size is rounded up to a
    multiple of ``multiple``.
    """
    parts = -(-total // most)
    part = -(-total // parts)
    return -(-part // multiple) * multiple
