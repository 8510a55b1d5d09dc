"""Inputs from files: which file is for which input, and pictures as images."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ortpkg.foundations.errors import InvalidFeedError, UsageError
from ortpkg.graph.given_feeds import random_feeds, read_feeds
from tests.api.mutations import mutated


@dataclass(frozen=True)
class Argument:
    name: str
    type: str = "tensor(float)"
    shape: tuple[int | str | None, ...] = ("batch", 1, 8, 8)


IMAGE = Argument("image")


def test_npy_and_npz_files_are_read_by_name(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    np.savez(tmp_path / "b.npz", b=np.ones(2), other=np.zeros(1))
    feeds = read_feeds(
        [f"a={tmp_path / 'a.npy'}", f"b={tmp_path / 'b.npz'}"], [Argument("a"), Argument("b")]
    )
    assert feeds["a"].tolist() == [0, 1, 2]
    assert feeds["b"].tolist() == [1, 1]


def test_a_model_with_one_input_needs_no_name(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    assert list(read_feeds([str(tmp_path / "a.npy")], [IMAGE])) == ["image"]


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (
            ["a.npy"],
            (
                "say which input, as name=file, or give an npz file with an array for each; inputs:"
                " 'x', 'y'"
            ),
        ),
        (["z=a.npy"], "the model has no input 'z'"),
        (["x=a.npy", "x=a.npy"], "input 'x' is given twice"),
        (["x=a.csv"], "inputs come from .npy, .npz, .png, .jpg or .jpeg files"),
        (["x=missing.npy"], "cannot read"),
        (["x=cut.npy"], "cannot read"),
        (["x=empty.npz"], "cannot read"),
        (["x=two.npz"], "has no array 'x'; it has 'p', 'q'"),
    ],
)
def test_a_wrong_assignment_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assignments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.arange(100))
    Path("cut.npy").write_bytes(Path("a.npy").read_bytes()[:-300])
    Path("empty.npz").write_bytes(b"")
    np.savez("two.npz", p=np.ones(1), q=np.ones(1))
    with pytest.raises((UsageError, InvalidFeedError), match=message.replace("(", r"\(")):
        read_feeds(assignments, [Argument("x"), Argument("y")])


@pytest.mark.parametrize(
    ("argument", "shape", "dtype"),
    [
        (IMAGE, (1, 1, 8, 8), "float32"),
        (Argument("image", "tensor(uint8)", (1, 4, 6, 3)), (1, 4, 6, 3), "uint8"),
        (Argument("image", "tensor(float)", (3, None, "w")), (3, 10, 20), "float32"),
        (Argument("image", "tensor(uint8)", ("h", "w")), (10, 20), "uint8"),
    ],
)
def test_a_picture_takes_the_form_of_the_input(
    tmp_path: Path, argument: Argument, shape: tuple[int, ...], dtype: str
) -> None:
    Image.new("RGB", (20, 10), (255, 0, 0)).save(tmp_path / "p.png")
    (image,) = read_feeds([f"image={tmp_path / 'p.png'}"], [argument], resize=True).values()
    assert image.shape == shape
    assert image.dtype == dtype
    assert image.max() <= (255 if dtype == "uint8" else 1)


@pytest.mark.parametrize("shape", [(1, 1, 16, 8), (1, 1, 8, 16), ("batch", "h", 16, 3)])
def test_a_picture_of_another_size_is_resampled_only_where_asked_for(
    tmp_path: Path, shape: tuple[Any, ...]
) -> None:
    Image.new("L", (8, 8)).save(tmp_path / "p.png")
    words, arguments = [f"image={tmp_path / 'p.png'}"], [Argument("image", shape=shape)]
    with pytest.raises(
        InvalidFeedError, match=r"has 8 x 8 pixels, not .*16.*; --resize resamples it"
    ):
        read_feeds(words, arguments)
    assert 16 in read_feeds(words, arguments, resize=True)["image"].shape


@pytest.mark.parametrize("name", ["p.jpg", "p.JPEG"])
def test_a_jpeg_is_a_picture_too(tmp_path: Path, name: str) -> None:
    Image.new("RGB", (8, 8), (255, 0, 0)).save(tmp_path / name, format="JPEG", quality=95)
    image = read_feeds([f"image={tmp_path / name}"], [Argument("image", shape=(1, 3, 8, 8))])[
        "image"
    ]
    np.testing.assert_allclose(image.mean(axis=(0, 2, 3)), [1, 0, 0], atol=0.02)


def test_a_picture_is_what_its_name_says(tmp_path: Path) -> None:
    Image.new("L", (8, 8)).save(tmp_path / "p.png")
    (tmp_path / "p.png").rename(tmp_path / "p.jpg")
    with pytest.raises(UsageError, match="as JPEG"):
        read_feeds([f"image={tmp_path / 'p.jpg'}"], [Argument("image", shape=(1, 1, 8, 8))])


def test_one_npz_file_has_all_inputs(tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", x=np.ones(1), y=np.zeros(2))
    arguments = [Argument("x"), Argument("y")]
    feeds = read_feeds([str(tmp_path / "all.npz")], arguments)
    assert {name: array.tolist() for name, array in feeds.items()} == {"x": [1], "y": [0, 0]}
    with pytest.raises(InvalidFeedError, match="the model has no input 'y'"):
        read_feeds([str(tmp_path / "all.npz")], [Argument("x"), Argument("z")])
    with pytest.raises(UsageError, match="input 'x' is given twice"):
        read_feeds([str(tmp_path / "all.npz"), f"x={tmp_path / 'all.npz'}"], arguments)


def test_random_feeds_fill_what_is_not_given(tmp_path: Path) -> None:
    arguments = [Argument("x", shape=("batch", 3)), Argument("y", "tensor(int64)", ("batch", "n"))]
    given = {"x": np.zeros((2, 3), np.float32)}

    def made(seed: int, **sizes: int) -> dict[str, Any]:
        return random_feeds(arguments, given, sizes=sizes, value_ranges={}, seed=seed)

    feeds = made(1, batch=2, n=5)
    assert feeds["x"] is given["x"]
    assert feeds["y"].shape == (2, 5)
    assert feeds["y"].tolist() == made(1, batch=2, n=5)["y"].tolist()
    assert feeds["y"].tolist() != made(2, batch=2, n=5)["y"].tolist()
    with pytest.raises(UsageError, match="no input has a dimension 'bach'"):
        made(1, bach=2)


def test_a_picture_is_scaled_to_the_range_that_the_package_states(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 255], [51, 204]], np.uint8)).save(tmp_path / "p.png")
    argument = Argument("image", "tensor(float)", (1, 1, 2, 2))
    (image,) = read_feeds(
        [f"image={tmp_path / 'p.png'}"], [argument], {"image": (-1.0, 1.0)}
    ).values()
    np.testing.assert_allclose(image.ravel(), [-1.0, 1.0, -0.6, 0.6], atol=1e-6)


def test_a_picture_is_no_input_for_something_else(tmp_path: Path) -> None:
    Image.new("L", (8, 8)).save(tmp_path / "p.png")
    with pytest.raises(InvalidFeedError, match="input 'tokens' is no image"):
        read_feeds(
            [f"tokens={tmp_path / 'p.png'}"],
            [Argument("tokens", "tensor(int64)", ("batch", "length", 7))],
        )


def test_a_file_that_is_no_picture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(b"GIF89a")
    with pytest.raises(UsageError, match="as PNG"):
        read_feeds([f"image={tmp_path / 'p.png'}"], [IMAGE])


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        (Argument("image", "tensor(float)", (1, 1, 1, 4)), [0.0, 256 / 65535, 0.5, 1.0]),
        (Argument("image", "tensor(uint8)", (1, 1, 1, 4)), [0, 1, 128, 255]),
        (Argument("image", "tensor(float)", (1, 3, 1, 4)), [0.0, 256 / 65535, 0.5, 1.0] * 3),
    ],
)
def test_a_picture_of_16_bits_is_scaled_not_clipped(
    tmp_path: Path, argument: Argument, expected: list[float]
) -> None:
    Image.fromarray(np.array([[0, 256, 32768, 65535]], np.uint16)).save(tmp_path / "p.png")
    (image,) = read_feeds([f"image={tmp_path / 'p.png'}"], [argument]).values()
    np.testing.assert_allclose(image.ravel(), expected, atol=1e-4)


def test_a_picture_of_16_bits_is_resampled_within_black_and_white(tmp_path: Path) -> None:
    pixels = np.zeros((8, 8), np.uint16)
    pixels[2:6, 2:6] = 65535
    Image.fromarray(pixels).save(tmp_path / "p.png")
    argument = Argument("image", shape=(1, 1, 16, 16))
    (image,) = read_feeds([f"image={tmp_path / 'p.png'}"], [argument], resize=True).values()
    assert image.shape == (1, 1, 16, 16)
    assert (image.min(), image.max()) == (0, 1)


def test_damaged_pictures_are_refused_with_a_typed_error(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    Image.fromarray(random.integers(0, 255, (16, 16, 3), np.uint8)).save(tmp_path / "p.png")
    whole = (tmp_path / "p.png").read_bytes()
    refused = 0
    for _ in range(1000):
        (tmp_path / "p.png").write_bytes(mutated(whole, random))
        try:
            read_feeds(
                [f"image={tmp_path / 'p.png'}"], [Argument("image", shape=(1, 3, None, None))]
            )
        except UsageError:
            refused += 1
    assert refused > 500


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.png"])
@pytest.mark.timeout(20)
def test_a_pipe_is_no_file_to_wait_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(UsageError, match="it is not a regular file"):
        read_feeds([f"image={tmp_path / name}"], [IMAGE])
