"""ImageDecoder: every format of the operator, transparency, files that are none, bombs."""

from __future__ import annotations

import io
import struct
import sys
import tracemalloc
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import pytest

from ortpkg.foundations.errors import LimitExceededError, MissingExtraError
from tests.kernels.node_runner import run_op

PIXELS = np.random.default_rng(7).integers(0, 256, (5, 8, 3), np.uint8)


def encoded(pixels: npt.NDArray[Any], name: str, **words: Any) -> npt.NDArray[np.uint8]:
    stream = io.BytesIO()
    PIL.Image.fromarray(pixels).save(stream, name, **words)
    return np.frombuffer(stream.getvalue(), np.uint8)


def decoded(image: npt.NDArray[np.uint8], **words: Any) -> npt.NDArray[np.uint8]:
    return np.asarray(run_op("ImageDecoder", image, **words))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("BMP", {}),
        ("PNG", {}),
        ("TIFF", {}),
        ("PPM", {}),
        ("WEBP", {"lossless": True}),
        ("JPEG2000", {}),
    ],
)
def test_what_loses_nothing_comes_back_in_every_pixel_format(
    name: str, words: dict[str, Any]
) -> None:
    image = encoded(PIXELS, name, **words)
    np.testing.assert_array_equal(decoded(image), PIXELS)
    np.testing.assert_array_equal(decoded(image, pixel_format="BGR"), PIXELS[..., ::-1])
    luma = np.asarray(PIL.Image.fromarray(PIXELS).convert("L"))[..., np.newaxis]
    np.testing.assert_array_equal(decoded(image, pixel_format="Grayscale"), luma)


def test_jpeg_gives_what_pillow_gives() -> None:
    image = encoded(PIXELS, "JPEG")
    there = np.asarray(PIL.Image.open(io.BytesIO(image.tobytes())))
    np.testing.assert_array_equal(decoded(image), there)


def test_other_kinds_of_pixels_become_three_channels() -> None:
    with_alpha = np.dstack([PIXELS, np.full((5, 8), 128, np.uint8)])
    np.testing.assert_array_equal(decoded(encoded(with_alpha, "PNG")), PIXELS)
    grey = decoded(encoded(PIXELS[..., 0], "PNG"))
    np.testing.assert_array_equal(grey, np.repeat(PIXELS[..., :1], 3, axis=2))


@pytest.mark.parametrize("name", ["PNG", "WEBP"])
def test_a_small_file_of_many_pixels_is_refused_before_they_are_read(name: str) -> None:
    image = encoded(np.zeros((6000, 6000), np.uint8), name)
    assert image.nbytes < 100_000
    with pytest.raises(LimitExceededError):
        decoded(image, limit_nbytes=100 << 20)


def test_webp_tells_its_size_in_each_of_its_forms() -> None:
    lossy, lossless = encoded(PIXELS, "WEBP"), encoded(PIXELS, "WEBP", lossless=True)
    with_alpha = np.dstack([PIXELS, np.full((5, 8), 128, np.uint8)])
    extended = encoded(with_alpha, "WEBP")
    assert [image[12:16].tobytes() for image in (lossy, lossless, extended)] == [
        b"VP8 ",
        b"VP8L",
        b"VP8X",
    ]
    for image in (lossy, lossless, extended):
        assert decoded(image).shape == (5, 8, 3)
        with pytest.raises(LimitExceededError):
            decoded(image, limit_nbytes=6 * image.nbytes + 12 * 5 * 8 - 1)
        decoded(image, limit_nbytes=6 * image.nbytes + (12 + 3) * 5 * 8)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _with_chunks(*chunks: bytes) -> bytes:
    """A PNG file with more chunks behind its head."""
    image = encoded(PIXELS, "PNG").tobytes()
    return image[:33] + b"".join(chunks) + image[33:]


def _with_segments(marker: int, head: bytes) -> bytes:
    """A JPEG file with segments of a kind, 4 MiB in all."""
    image = encoded(PIXELS, "JPEG").tobytes()
    data = head + bytes(65_000)
    segment = b"\xff" + bytes([marker]) + struct.pack(">H", len(data) + 2) + data
    return image[:2] + segment * 64 + image[2:]


_MANY = bytes(4 << 20)
_LARGE_FILES = {
    **{
        name: encoded(PIXELS, name, **words).tobytes() + _MANY
        for name, words in [
            ("BMP", {}), ("JPEG", {}), ("JPEG2000", {}), ("PNG", {}), ("PPM", {}),
            ("TIFF", {"compression": "tiff_lzw"}), ("WEBP", {}),
        ]
    },
    "WebP's profile": encoded(PIXELS, "WEBP", icc_profile=_MANY).tobytes(),
    "TIFF's profile": encoded(PIXELS, "TIFF", icc_profile=_MANY).tobytes(),
    "JPEG's Exif": _with_segments(0xE1, b"Exif\0\0"),
    "JPEG's profile": _with_segments(0xE2, b"ICC_PROFILE\0\1\1"),
    "PNG's text": _with_chunks(_chunk(b"iTXt", b"key\0\0\0\0\0" + b"a" * len(_MANY))),
    "PNG's own": _with_chunks(_chunk(b"prIv", _MANY)),
}  # fmt: skip


@pytest.mark.parametrize("name", list(_LARGE_FILES))
def test_copies_of_a_large_file_are_asked_for(name: str) -> None:
    image = np.frombuffer(_LARGE_FILES[name], np.uint8)
    with pytest.raises(LimitExceededError):
        decoded(image, limit_nbytes=6 * image.nbytes)
    tracemalloc.start(1)
    assert decoded(image).shape == (5, 8, 3)
    _, most_nbytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_nbytes < 6 * image.nbytes + (1 << 20)


def test_texts_of_a_png_file_are_not_inflated() -> None:
    text = "\N{GRINNING FACE}" + "a" * ((1 << 20) - 8)
    data = b"key%d\0\1\0\0\0" + zlib.compress(text.encode())
    image = _with_chunks(*(_chunk(b"iTXt", data.replace(b"%d", b"%d" % n)) for n in range(30)))
    tracemalloc.start(1)
    np.testing.assert_array_equal(decoded(np.frombuffer(image, np.uint8)), PIXELS)
    _, most_nbytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_nbytes < 2 << 20, "each of 30 texts takes 4 MiB"


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        (b"", "it is no image that can be decoded"),
        (b"GIF89a\x01\x00\x01\x00", "it is no image that can be decoded"),
        (encoded(PIXELS, "PNG").tobytes()[:-40], "the image is damaged"),
    ],
)
def test_what_is_no_image_is_told(image: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        decoded(np.frombuffer(image, np.uint8))


def test_a_pixel_format_that_there_is_not_is_told() -> None:
    with pytest.raises(ValueError, match="there is no pixel format 'CMYK': RGB, BGR, Grayscale"):
        decoded(encoded(PIXELS, "PNG"), pixel_format="CMYK")


def test_without_pillow_the_message_names_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(
        MissingExtraError, match="ImageDecoder needs pillow, which cannot be loaded"
    ):
        decoded(np.zeros(3, np.uint8))
