"""Inputs of a model from files (npy, npz, and png or jpeg for images), or random."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.foundations.arrays.array_files import (
    MOST_ARRAY_NBYTES,
    read_npy,
    read_npz,
    verify_regular,
)
from ortpkg.foundations.errors import (
    InvalidFeedError,
    MissingExtraError,
    UsageError,
    quoted,
    unquoted,
)
from ortpkg.foundations.names import did_you_mean
from ortpkg.graph.declared_values import DeclaredValue
from ortpkg.graph.synthetic_inputs import check_sizes, synthetic_feed

Array = npt.NDArray[Any]

_NUMPY_NAMES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(uint8)": "uint8",
    "tensor(int8)": "int8",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
}
#: Format by extension; no other decoder is tried.
_PICTURES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}


def read_feeds(
    assignments: Sequence[str],
    inputs: Sequence[DeclaredValue],
    value_ranges: Mapping[str, tuple[float, float]] | None = None,
    *,
    resize: bool = False,
) -> dict[str, Array]:
    """Read ``name=file`` assignments into feeds for a session with these inputs.

    A file may be ``.npy`` (one array), ``.npz`` (the array of that name, or its only one), ``.png``
    or ``.jpg`` (if the input is an image: rank 3 or 4 with 1 or 3 channels, or rank 2). A model
    with one input needs no ``name=``, nor does an npz file, whose arrays are then inputs by their
    names.

    Args:
        assignments: Assignments of the caller.
        inputs: Inputs of the session.
        value_ranges: Values of black and white in pictures by input, as far as the package says.
        resize: True to resample pictures to the size of their input; otherwise another size is an
            error.

    Raises:
        UsageError: An assignment has no name, or a file cannot be read.
        InvalidFeedError: The model has no such input, or a picture does not fit it.
    """
    by_name = {argument.name: argument for argument in inputs}
    feeds: dict[str, Array] = {}
    for assignment in assignments:
        for name, file in _files_of(assignment, by_name):
            if name not in by_name:
                raise InvalidFeedError(
                    f"the model has no input {quoted(name)}{did_you_mean(name, by_name)}; it has"
                    f" {_list(by_name)}",
                    name=name,
                )
            if name in feeds:
                raise UsageError(f"input {quoted(name)} is given twice")
            value_range = (value_ranges or {}).get(name)
            feeds[name] = (
                _read_one(file, by_name[name], value_range, resize=resize)
                if isinstance(file, Path)
                else file
            )
    return feeds


def random_feeds(
    inputs: Sequence[DeclaredValue],
    feeds: Mapping[str, Array],
    *,
    sizes: Mapping[str, int],
    value_ranges: Mapping[str, tuple[float, float]],
    seed: int,
) -> dict[str, Array]:
    """Return ``feeds`` with seeded random values for the other inputs.

    ``sizes`` are the sizes of symbolic dimensions; see
    :func:`~ortpkg.graph.synthetic_inputs.synthetic_feed`, also for errors.
    """
    check_sizes(inputs, sizes)
    missing = [argument for argument in inputs if argument.name not in feeds]
    dimensions = {
        dimension
        for argument in missing
        for dimension in argument.shape or ()
        if isinstance(dimension, str)
    }
    used_sizes = {name: size for name, size in sizes.items() if name in dimensions}
    return {**feeds, **synthetic_feed(missing, sizes=used_sizes, ranges=value_ranges, seed=seed)}


def _files_of(
    assignment: str, by_name: Mapping[str, DeclaredValue]
) -> Iterator[tuple[str, Path | Array]]:
    """Yield input names with their files, or with the arrays of a file that has several."""
    name, separator, file = assignment.partition("=")
    if separator:
        yield name, Path(file)
        return
    if len(by_name) == 1:
        yield next(iter(by_name)), Path(assignment)
        return
    if not assignment.lower().endswith(".npz"):
        raise UsageError(
            f"--input {quoted(assignment)}: say which input, as name=file, or give an npz file with"
            f" an array for each; inputs: {_list(by_name)}"
        )
    yield from read_npz(Path(assignment)).items()


def _read_one(
    path: Path, argument: DeclaredValue, value_range: tuple[float, float] | None, *, resize: bool
) -> Array:
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return read_npy(path)
    if suffix == ".npz":
        arrays = read_npz(path)
        if argument.name in arrays:
            return arrays[argument.name]
        if len(arrays) == 1:
            return next(iter(arrays.values()))
        raise UsageError(
            f"{quoted(path)} has no array {quoted(argument.name)}; it has {_list(arrays)}"
        )
    if suffix in _PICTURES:
        return read_picture(path, argument, value_range, resize=resize)
    raise UsageError(
        f"cannot read {quoted(path)}: inputs come from .npy, .npz, .png, .jpg or .jpeg files"
    )


def read_picture(
    path: Path,
    argument: DeclaredValue,
    value_range: tuple[float, float] | None = None,
    *,
    resize: bool = False,
) -> Array:
    """Read a PNG or JPEG as the image that ``argument`` takes.

    Channels (1 grey, 3 RGB) and layout (channels first or last) follow the input's shape. With
    ``resize`` the picture is resampled to a fixed height and width; without, it must have them.
    Values go from black to white over ``value_range``, by default 0 to 255 for integer inputs and 0
    to 1 for floating-point ones; a grey picture of 16 bits keeps its finer steps.
    """
    shape = [size if isinstance(size, int) else None for size in argument.shape or ()]
    layout = _image_layout(shape)
    if layout is None or argument.type not in _NUMPY_NAMES:
        raise InvalidFeedError(
            f"input {quoted(argument.name)} is no image: a picture needs a numeric input of shape "
            "[N,C,H,W], [N,H,W,C], [C,H,W], [H,W,C] or [H,W] with 1 or 3 channels",
            name=argument.name,
            expected=f"{argument.type} {list(argument.shape or ())}",
        )
    channels, is_first, height, width = layout
    pixels = _decode(
        path, "L" if channels == 1 else "RGB", _Size(argument.name, width, height, resize=resize)
    )
    dtype = np.dtype(_NUMPY_NAMES[argument.type])
    black, white = value_range or ((0, 255) if dtype.kind in "ui" else (0, 1))
    scaled = black + pixels.astype(np.float64) * ((white - black) / 255)
    image = (np.rint(scaled) if dtype.kind in "ui" else scaled).astype(dtype)
    if len(shape) > 2:
        image = image.reshape(*image.shape[:2], channels)
        image = np.ascontiguousarray(image.transpose(2, 0, 1)) if is_first else image
    return image[np.newaxis] if len(shape) == 4 else image


def _image_layout(shape: Sequence[int | None]) -> tuple[int, bool, int | None, int | None] | None:
    """Return channels, channels first, height and width of an image input, or None."""
    if len(shape) == 2:
        return 1, False, shape[0], shape[1]
    if len(shape) not in {3, 4} or (len(shape) == 4 and shape[0] not in {1, None}):
        return None
    first, middle, last = shape[-3:]
    if first in {1, 3}:
        return first, True, middle, last
    if last in {1, 3}:
        return last, False, first, middle
    return None


@dataclass(frozen=True, slots=True)
class _Size:
    """Picture size that an input takes (None for any), and if pictures may be resampled to it."""

    name: str
    width: int | None
    height: int | None
    resize: bool

    def of(self, width: int, height: int) -> tuple[int, int]:
        """Return the size that a picture of this size gets.

        Raises:
            InvalidFeedError: It would have to be resampled, and must not.
        """
        wanted = self.width or width, self.height or height
        if wanted != (width, height) and not self.resize:
            raise InvalidFeedError(
                f"the picture for input {quoted(self.name)} has {width} x {height} pixels, not"
                f" {wanted[0]} x {wanted[1]}; --resize resamples it",
                name=self.name,
                expected=f"{wanted[0]} x {wanted[1]}",
                actual=f"{width} x {height}",
            )
        return wanted


def _decode(path: Path, mode: str, size: _Size) -> Array:
    """Return values from 0 to 255, as rows of grey ("L") or of red, green and blue ("RGB")."""
    try:
        from PIL import Image  # an extra: only pictures need it
    except ImportError as error:
        raise MissingExtraError("reading pictures", "pillow", error) from error
    try:
        verify_regular(path)
        with Image.open(path, formats=[_PICTURES[path.suffix.lower()]]) as picture:
            if picture.width * picture.height > MOST_ARRAY_NBYTES // 16:
                raise UsageError(
                    f"{quoted(path)} is too large: {picture.width} x {picture.height} pixels"
                )
            wanted = size.of(picture.width, picture.height)
            is_deep = picture.mode.startswith("I")
            # Pillow's own conversion of 16 bits to 8 clips instead of scaling.
            pixels = (
                Image.fromarray(np.asarray(picture, np.float32) / 257)
                if is_deep
                else picture.convert(mode)
            )
            values = np.asarray(pixels if pixels.size == wanted else pixels.resize(wanted))
    except (UsageError, InvalidFeedError):
        raise
    except Exception as error:  # Pillow's decoders raise many kinds for damaged pictures
        kind = _PICTURES[path.suffix.lower()]
        raise UsageError(f"cannot read {quoted(path)} as {kind}: {unquoted(error)}") from error
    if is_deep:
        values = np.clip(values, 0, 255)  # resampling overshoots
        return np.repeat(values[:, :, np.newaxis], 3, axis=2) if mode == "RGB" else values
    return values


def _list(names: Mapping[str, object]) -> str:
    return ", ".join(quoted(name) for name in names) or "none"
