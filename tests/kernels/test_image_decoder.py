"""ImageDecoder: every format of the operator, transparency, files that are none, bombs."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import pytest

from ortpkg.errors import LimitExceededError, MissingExtraError
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
            decoded(image, limit_nbytes=12 * 5 * 8 - 1)
        decoded(image, limit_nbytes=(12 + 3) * 5 * 8)


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
