"""Rows of picture files in folders: one picture each, decoded for the input, and its path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ortpkg.foundations.errors import InvalidFeedError, MissingExtraError, UsageError
from ortpkg.graph.given_feeds import read_picture
from ortpkg.scale.batches.parts import Part
from ortpkg.scale.batches.rows import Array, RowError, Rows

#: Column of the decoded picture, and column of its file.
IMAGE, PATH = "image", "path"


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureInput:
    """Input for which pictures are decoded; see :func:`~ortpkg.graph.given_feeds.read_picture`.

    Attributes:
        name, type, shape: As the input declares them.
        value_range: Values of black and white; None if the package does not say.
        resize: True to resample pictures to its size.
    """

    name: str
    type: str
    shape: tuple[int | str | None, ...]
    value_range: tuple[float, float] | None = None
    resize: bool = False


def read_image_rows(part: Part, wanted: PictureInput) -> Rows:
    """Return the pictures of a part; one that cannot be decoded is an error of its row."""
    images: list[Array] = []
    paths, row_ids, errors = [], [], []
    for index, file in enumerate(part.files):
        try:
            image = read_picture(Path(file), wanted, wanted.value_range, resize=wanted.resize)
        except MissingExtraError:  # no row can be read
            raise
        except (UsageError, InvalidFeedError) as error:
            row_id = part.first_row + index
            errors.append(RowError(row_id=row_id, file=file, file_row=0, reason=str(error)))
            continue
        images.append(image[0] if image.ndim == 4 else image)
        paths.append(file)
        row_ids.append(part.first_row + index)
    return Rows(
        row_ids=np.asarray(row_ids, np.int64),
        columns={IMAGE: _stacked(images), PATH: list(paths)},
        errors=tuple(errors),
    )


def _stacked(images: Sequence[Array]) -> Array | list[Array]:
    shapes = {image.shape for image in images}
    return np.stack(images) if len(shapes) == 1 else list(images)
