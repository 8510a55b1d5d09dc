"""A model's inputs: read from files (npy, npz, for images png and jpeg), or random."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.arrays.array_files import MOST_ARRAY_NBYTES, read_npy, read_npz, verify_regular
from ortpkg.arrays.synthetic_inputs import check_sizes, synthetic_feed
from ortpkg.errors import InvalidFeedError, MissingExtraError, UsageError, quoted, unquoted
from ortpkg.graph.declared_values import DeclaredValue
from ortpkg.names import did_you_mean

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
#: Extension → the format that it says; no other decoder is tried, so that a file is what it is
#: called.
_PICTURES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}


def read_feeds(
    assignments: Sequence[str],
    inputs: Sequence[DeclaredValue],
    value_ranges: Mapping[str, tuple[float, float]] | None = None,
    *,
    resize: bool = False,
) -> dict[str, Array]:
    """Reads ``name=file`` assignments into feeds for a session with these inputs.

    A file may be ``.npy`` (one array), ``.npz`` (the array of that name, or its only one), ``.png``
    or ``.jpg`` (where the input is an image: rank 3 or 4 with 1 or 3 channels, or rank 2). A model
    with one input needs no ``name=``, nor does an npz file, whose arrays are then the inputs of
    their names.

    Args:
        assignments: what the caller gave.
        inputs: what the session takes.
        value_ranges: input name → what black and white are in a picture for it, where the package
            says so.
        resize: resample pictures to the size that an input has; else one of another size is an
            error.

    Raises:
        UsageError: an assignment has no name, or a file cannot be read.
        InvalidFeedError: the model has no such input, or a picture does not fit it.
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
    given: Mapping[str, Array],
    *,
    sizes: Mapping[str, int],
    value_ranges: Mapping[str, tuple[float, float]],
    seed: int,
) -> dict[str, Array]:
    """``given``, and seeded random values for the inputs that are not among them.

    ``sizes``: symbolic dimension → size; see
    :func:`~ortpkg.arrays.synthetic_inputs.synthetic_feed`, also for errors.
    """
    check_sizes(inputs, sizes)
    missing = [argument for argument in inputs if argument.name not in given]
    known = {each for argument in missing for each in argument.shape or () if isinstance(each, str)}
    own = {name: size for name, size in sizes.items() if name in known}
    return {**given, **synthetic_feed(missing, sizes=own, ranges=value_ranges, seed=seed)}


def _files_of(
    assignment: str, by_name: Mapping[str, DeclaredValue]
) -> Iterator[tuple[str, Path | Array]]:
    """Input names with their files, or with the arrays of one file that has several."""
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
    """A PNG or JPEG as the image that ``argument`` takes.

    Channels (1 grey, 3 RGB) and layout (channels first or last) follow the input's shape; a fixed
    height and width are met by resampling with ``resize``, and are those of the picture without.
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
    """(channels, channels first, height, width) of an image input; None where it is none."""
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
    """The picture an input takes: width, height (None: any), whether to resample for it."""

    name: str
    width: int | None
    height: int | None
    resize: bool

    def of(self, width: int, height: int) -> tuple[int, int]:
        """What a picture of that size becomes.

        InvalidFeedError where it would have to be resampled, and must not.
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
    """The picture's values, 0 to 255, as rows of grey ("L") or of red, green and blue ("RGB")."""
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
    except Exception as error:  # a damaged picture makes Pillow's decoders raise many kinds
        kind = _PICTURES[path.suffix.lower()]
        raise UsageError(f"cannot read {quoted(path)} as {kind}: {unquoted(error)}") from error
    if is_deep:
        values = np.clip(values, 0, 255)  # resampling overshoots
        return np.repeat(values[:, :, np.newaxis], 3, axis=2) if mode == "RGB" else values
    return values


def _list(names: Mapping[str, object]) -> str:
    return ", ".join(quoted(name) for name in names) or "none"
