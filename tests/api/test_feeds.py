"""Inputs from files: what is read, what is refused, and that nothing is unpickled."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ortpkg.api.feeds import read_feeds, read_npy, read_npz, write_npz
from ortpkg.errors import InvalidFeedError, UsageError


@dataclass(frozen=True)
class Argument:
    name: str
    type: str = "tensor(float)"
    shape: tuple[int | str | None, ...] = ("batch", 1, 8, 8)


IMAGE = Argument("image")


def test_npy_and_npz_files_are_read_by_name(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    np.savez(tmp_path / "b.npz", b=np.ones(2), other=np.zeros(1))
    feeds = read_feeds([f"a={tmp_path / 'a.npy'}", f"b={tmp_path / 'b.npz'}"], [Argument("a"), Argument("b")])
    assert feeds["a"].tolist() == [0, 1, 2]
    assert feeds["b"].tolist() == [1, 1]


def test_a_model_with_one_input_needs_no_name(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    assert list(read_feeds([str(tmp_path / "a.npy")], [IMAGE])) == ["image"]


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["a.npy"], "say which input, as name=file; inputs: 'x', 'y'"),
        (["z=a.npy"], "the model has no input 'z'"),
        (["x=a.npy", "x=a.npy"], "input 'x' is given twice"),
        (["x=a.csv"], "inputs come from .npy, .npz or .png files"),
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


class Payload:
    """Leaves a file behind where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_pickled_objects_are_refused_and_never_loaded(tmp_path: Path, suffix: str) -> None:
    mark = tmp_path / "unpickled"
    array = np.array([Payload(mark)], dtype=object)
    path = tmp_path / f"evil.{suffix}"
    if suffix == "npy":
        np.save(path, array, allow_pickle=True)
    else:
        np.savez(path, image=array)
    with pytest.raises(UsageError, match="pickled Python objects, which are never loaded"):
        read_feeds([f"image={path}"], [IMAGE])
    assert not mark.exists()


def test_a_header_that_asks_for_too_much_is_refused_before_anything_is_allocated(tmp_path: Path) -> None:
    path = tmp_path / "huge.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (10**6, 10**6)})
    with pytest.raises(UsageError, match=r"says it has 4000000000000 bytes; at most 4294967296 are read"):
        read_npy(path)


def test_a_damaged_npz_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, image=np.random.default_rng(0).standard_normal(1000))
    data = bytearray(path.read_bytes())
    for place in range(200, 1000):
        data[place] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(UsageError, match="cannot read"):
        read_npz(path)


def test_a_zip_bomb_is_refused_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    inner = tmp_path / "inner.npy"
    with inner.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**9,)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(inner, "image.npy")
    with pytest.raises(UsageError, match="says it has 8000000000 bytes"):
        read_npz(path)


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
    (image,) = read_feeds([f"image={tmp_path / 'p.png'}"], [argument]).values()
    assert image.shape == shape
    assert image.dtype == dtype
    assert image.max() <= (255 if dtype == "uint8" else 1)


def test_a_picture_is_scaled_to_the_range_that_the_package_states(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 255], [51, 204]], np.uint8)).save(tmp_path / "p.png")
    argument = Argument("image", "tensor(float)", (1, 1, 2, 2))
    (image,) = read_feeds([f"image={tmp_path / 'p.png'}"], [argument], {"image": (-1.0, 1.0)}).values()
    np.testing.assert_allclose(image.ravel(), [-1.0, 1.0, -0.6, 0.6], atol=1e-6)


def test_a_picture_is_no_input_for_something_else(tmp_path: Path) -> None:
    Image.new("L", (8, 8)).save(tmp_path / "p.png")
    with pytest.raises(InvalidFeedError, match="input 'tokens' is no image"):
        read_feeds([f"tokens={tmp_path / 'p.png'}"], [Argument("tokens", "tensor(int64)", ("batch", "length", 7))])


def test_a_file_that_is_no_picture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(b"GIF89a")
    with pytest.raises(UsageError, match="as PNG"):
        read_feeds([f"image={tmp_path / 'p.png'}"], [IMAGE])


def test_outputs_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_npz(tmp_path / "o.npz", {"y": np.arange(2)})
    assert read_npz(tmp_path / "o.npz")["y"].tolist() == [0, 1]
    with pytest.raises(UsageError, match="cannot write"):
        write_npz(tmp_path / "missing" / "o.npz", {"y": np.arange(2)})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.npz"]
