"""Divides the input into parts, after reading through it once to count the rows.

The result depends only on the files and the limits, so that every run of a job has the same parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ortpkg.scale.batches.csv_rows import csv_spans
from ortpkg.scale.batches.input_files import InputFiles, RowFormat
from ortpkg.scale.batches.json_rows import json_spans
from ortpkg.scale.batches.npy_rows import npy_size
from ortpkg.scale.batches.parquet_rows import parquet_groups
from ortpkg.scale.batches.parts import MOST_NBYTES, MOST_ROWS, Part
from ortpkg.scale.batches.text_spans import Span

#: Estimated size of a decoded picture, which its file does not state.
_PICTURE_NBYTES = 1 << 19


@dataclass(frozen=True, slots=True, kw_only=True)
class PartLimits:
    """Largest size of parts, in rows and in bytes."""

    most_rows: int = MOST_ROWS
    most_nbytes: int = MOST_NBYTES

    def rows_of(self, row_nbytes: float) -> int:
        """Return the number of rows of that size in a part."""
        return max(1, min(self.most_rows, int(self.most_nbytes / max(row_nbytes, 1))))


def plan_parts(source: InputFiles, limits: PartLimits) -> tuple[Part, ...]:
    """Return the parts of all files in order, numbered, with the numbers of their rows.

    Raises:
        UsageError: A file cannot be read.
    """
    parts: list[Part] = []
    first_row = 0
    for part in _PLANNERS[source.format](source.files, limits):
        parts.append(replace(part, number=len(parts), first_row=first_row))
        first_row += part.count
    return tuple(parts)


def _part(file: Path, file_row: int, count: int, offset: int = 0, nbytes: int = 0) -> Part:
    return Part(
        number=0,
        files=(str(file),),
        first_row=0,
        file_row=file_row,
        count=count,
        offset=offset,
        nbytes=nbytes,
    )


def _spans(
    spans_of: Callable[[Path, int, int], Iterator[Span]],
) -> Callable[[Sequence[Path], PartLimits], Iterator[Part]]:
    def parts(files: Sequence[Path], limits: PartLimits) -> Iterator[Part]:
        for file in files:
            for span in spans_of(file, limits.most_rows, limits.most_nbytes):
                yield _part(file, span.first_row, span.count, span.offset, span.nbytes)

    return parts


def _npy(files: Sequence[Path], limits: PartLimits) -> Iterator[Part]:
    for file in files:
        count, nbytes = npy_size(file)
        step = limits.rows_of(nbytes / max(count, 1))
        for first in range(0, count, step):
            yield _part(file, first, min(step, count - first))


def _parquet(files: Sequence[Path], limits: PartLimits) -> Iterator[Part]:
    """Join small row groups, and divide large ones into parts that are read together."""
    for file in files:
        first = count = 0
        nbytes = 0.0
        for number, group in enumerate(parquet_groups(file)):
            step = limits.rows_of(group.nbytes / max(group.count, 1))
            if count and (
                count + group.count > limits.most_rows or nbytes + group.nbytes > limits.most_nbytes
            ):
                yield _part(file, first, count)
                first, count, nbytes = first + count, 0, 0.0
            if group.count <= step:
                count, nbytes = count + group.count, nbytes + group.nbytes
                continue
            for begin in range(0, group.count, step):
                piece = _part(file, first + begin, min(step, group.count - begin))
                yield replace(piece, group=number)
            first += group.count
        if count:
            yield _part(file, first, count)


def _pictures(files: Sequence[Path], limits: PartLimits) -> Iterator[Part]:
    step = limits.rows_of(_PICTURE_NBYTES)
    for first in range(0, len(files), step):
        names = tuple(str(file) for file in files[first : first + step])
        yield Part(number=0, files=names, first_row=0, file_row=0, count=len(names))


_PLANNERS: dict[RowFormat, Callable[[Sequence[Path], PartLimits], Iterator[Part]]] = {
    RowFormat.PARQUET: _parquet,
    RowFormat.CSV: _spans(csv_spans),
    RowFormat.JSON_LINES: _spans(json_spans),
    RowFormat.NPY: _npy,
    RowFormat.IMAGES: _pictures,
}
