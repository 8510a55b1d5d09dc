"""Reads the rows of parts of any format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ortpkg.scale.batches.csv_rows import read_csv_rows
from ortpkg.scale.batches.image_rows import PictureInput, read_image_rows
from ortpkg.scale.batches.input_files import RowFormat
from ortpkg.scale.batches.json_rows import read_json_rows
from ortpkg.scale.batches.npy_rows import read_npy_rows
from ortpkg.scale.batches.parquet_rows import read_parquet_rows
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.batches.rows import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Options of the reader of parts.

    Attributes:
        format: Format of their files.
        columns: Columns that are needed; None for all.
        picture: Input for which pictures are decoded, or None.
    """

    format: RowFormat
    columns: tuple[str, ...] | None = None
    picture: PictureInput | None = None

    def rows_of(self, parts: Sequence[Part]) -> Iterator[tuple[Part, Rows]]:
        """Yield the rows of parts that are read together, part by part."""
        if self.format is RowFormat.PARQUET:
            yield from zip(parts, read_parquet_rows(parts, self.columns), strict=True)
            return
        for part in parts:
            yield part, self._rows(part)

    def _rows(self, part: Part) -> Rows:
        if self.format is RowFormat.CSV:
            return read_csv_rows(part)
        if self.format is RowFormat.JSON_LINES:
            return read_json_rows(part)
        if self.format is RowFormat.NPY:
            return read_npy_rows(part)
        assert self.picture is not None
        return read_image_rows(part, self.picture)
