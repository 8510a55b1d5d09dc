"""Parts as folders of pictures: each row's image is a PNG named after the row's number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ortpkg.foundations.errors import MissingExtraError, UsageError, quoted
from ortpkg.scale.batches.rows import Array, Column

#: Rank of an image with channels.
_WITH_CHANNELS = 3


def write_pictures(path: Path, columns: Mapping[str, Column]) -> None:
    """Write the only output, an image of 1 or 3 channels, as a PNG for each row.

    Integers are taken as 0 to 255, other numbers as 0 to 1.

    Raises:
        UsageError: There are several outputs, or the output is not an image.
    """
    try:
        from PIL import Image  # an extra: only pictures need it
    except ImportError as error:
        raise MissingExtraError("writing pictures", "pillow", error) from error
    (_, row_ids), *others = columns.items()
    if len(others) != 1:
        names = ", ".join(quoted(name) for name, _ in others)
        raise UsageError(f"--format images holds one output, and there are {names}")
    name, column = others[0]
    path.mkdir()
    for row_id, image in zip(row_ids, column, strict=True):
        Image.fromarray(_pixels(name, np.asarray(image))).save(path / f"{int(row_id):09}.png")


def _pixels(name: str, image: Array) -> Any:
    """Return rows of grey, or of red, green and blue, 0 to 255."""
    if image.ndim == _WITH_CHANNELS and image.shape[0] in {1, 3}:
        image = image.transpose(1, 2, 0)
    if image.ndim == _WITH_CHANNELS and image.shape[2] == 1:
        image = image[:, :, 0]
    is_image = image.ndim == 2 or (image.ndim == _WITH_CHANNELS and image.shape[2] == 3)
    if not is_image or not image.size:
        raise UsageError(
            f"output {quoted(name)} is no image: a row has the shape {list(image.shape)};"
            " --format parquet, jsonl or npy hold it"
        )
    scaled = image.astype(np.float64) * (1 if image.dtype.kind in "iub" else 255)
    return np.clip(np.rint(np.nan_to_num(scaled)), 0, 255).astype(np.uint8)
