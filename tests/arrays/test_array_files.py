"""Arrays in files: what is read, what is refused, and how outputs are written."""

from __future__ import annotations

import io
import os
import stat
import threading
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ortpkg.foundations.arrays.array_files import read_npy, read_npz, write_npz
from ortpkg.foundations.errors import UsageError
from tests.api.mutations import mutated
from tests.npz import arrays_in


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
        read_npy(path) if suffix == "npy" else read_npz(path)
    assert not mark.exists()


def test_a_header_that_asks_for_too_much_is_refused_before_anything_is_allocated(
    tmp_path: Path,
) -> None:
    path = tmp_path / "huge.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": (10**6, 10**6)}
        )
    with pytest.raises(
        UsageError, match=r"says it has 4000000000000 bytes; at most 4294967296 are read"
    ):
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
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (10**9,)}
        )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(inner, "image.npy")
    with pytest.raises(UsageError, match="says it has 8000000000 bytes"):
        read_npz(path)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(3, np.float16),
        np.zeros((0, 4)),
        np.array(["größe", ""]),
        np.array([True, False]),
        np.array([b"x", b""]),
    ],
    ids=str,
)
def test_arrays_of_every_kind_come_back(tmp_path: Path, array: np.ndarray[Any, Any]) -> None:
    np.save(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "a.npz", a=array)
    for read in (read_npy(tmp_path / "a.npy"), read_npz(tmp_path / "a.npz")["a"]):
        assert (read.shape, read.dtype) == (array.shape, array.dtype)
        assert np.array_equal(read, array)


HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (HEADER.replace("(2,)", "(-1,)"), "says it has the shape"),
        (HEADER.replace("(2,)", "(-2, -1)"), "says it has the shape"),
        (HEADER.replace("<f4", "|V0").replace("(2,)", f"({10**15},)"), "says it has the shape"),
        (HEADER.replace("(2,)", "(3,)"), "the file is too short for that|ends after"),
        (HEADER.replace("(2,)", "(2.0,)"), "cannot read"),
        (HEADER.replace("(2,)", "(" + "1," * 70 + ")"), "cannot read"),
        (HEADER.replace("'<f4'", "('<f4', 2, 3, 4)"), "cannot read"),
        (HEADER.replace("'<f4'", "{}"), "cannot read"),
        (HEADER.replace("}", ""), "cannot read"),
        ("(" * 5000, "cannot read"),
        ("\0\x1b[31m", "cannot read"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(tmp_path: Path, header: str, message: str) -> None:
    text = header.encode("latin1") + b"\n"
    (tmp_path / "a.npy").write_bytes(
        b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text + bytes(8)
    )
    with pytest.raises(UsageError, match=message) as caught:
        read_npy(tmp_path / "a.npy")
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_thousands_of_damaged_files_are_read_or_refused_and_nothing_else(
    tmp_path: Path, suffix: str
) -> None:
    random = np.random.default_rng(1)
    stream = io.BytesIO()
    if suffix == "npy":
        np.save(stream, np.arange(20.0).reshape(4, 5))
    else:
        np.savez_compressed(
            stream, x=np.arange(20.0), y=np.array(["a", "bc"]), z=np.zeros((2, 0), np.int8)
        )
    path = tmp_path / f"a.{suffix}"
    refused = 0
    for _ in range(3000):
        path.write_bytes(mutated(stream.getvalue(), random))
        try:
            read_npy(path) if suffix == "npy" else read_npz(path)
        except UsageError:
            refused += 1
    assert refused > 1500


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compression_that_numpy_never_writes_is_refused(tmp_path: Path, method: int) -> None:
    np.save(tmp_path / "a.npy", np.zeros(1000))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", method) as archive:
        archive.write(tmp_path / "a.npy", "a.npy")
    with pytest.raises(UsageError, match="compressed in a way that npz files do not use"):
        read_npz(tmp_path / "a.npz")


def test_an_npz_with_a_name_twice_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(1))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.write(tmp_path / "a.npy", "a.npy")
        archive.write(tmp_path / "a.npy", "a")
    with pytest.raises(UsageError, match="array 'a' is there twice"):
        read_npz(tmp_path / "a.npz")


# --- writing --------------------------------------------------------------------------------------


def test_outputs_are_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_npz(tmp_path / "o.npz", {"y": np.arange(2)})
    assert read_npz(tmp_path / "o.npz")["y"].tolist() == [0, 1]
    with pytest.raises(UsageError, match=r"cannot write .*No such file or directory"):
        write_npz(tmp_path / "missing" / "o.npz", {"y": np.arange(2)})

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numpy.lib.format.write_array", fail)
    with pytest.raises(UsageError, match=r"cannot write .*No space left on device"):
        write_npz(tmp_path / "o.npz", {"y": np.arange(3)})
    assert read_npz(tmp_path / "o.npz")["y"].tolist() == [0, 1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.npz"]


def test_what_is_written_reaches_the_disk_before_it_takes_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    replace = Path.replace

    def note_replace(own: Path, target: Path) -> Path:
        events.append("replace")
        return replace(own, target)

    monkeypatch.setattr(os, "fsync", lambda file: events.append("fsync"))
    monkeypatch.setattr(Path, "replace", note_replace)
    write_npz(tmp_path / "o.npz", {"y": np.arange(2)})
    assert events == ["fsync", "replace"]


@pytest.mark.parametrize("name", ["file", "allow_pickle", "args", "a/b", "größe", "x.npy", ""])
def test_outputs_of_any_name_are_written(tmp_path: Path, name: str) -> None:
    write_npz(tmp_path / "o.npz", {name: np.arange(2), "other": np.zeros(1)})
    assert arrays_in(tmp_path / "o.npz")[name].tolist() == [0, 1]
    assert read_npz(tmp_path / "o.npz")[name].tolist() == [0, 1]


def test_texts_are_written_so_that_they_are_read_without_unpickling(tmp_path: Path) -> None:
    texts = np.array([["größe", ""], ["模型", "a\0b"]], dtype=object)
    write_npz(tmp_path / "o.npz", {"t": texts, "none": np.array([], dtype=object)})
    loaded = arrays_in(tmp_path / "o.npz")
    assert loaded["t"].tolist() == texts.tolist()
    assert loaded["none"].shape == (0,)


def test_the_tensors_of_a_sequence_are_written_one_by_one(tmp_path: Path) -> None:
    write_npz(tmp_path / "o.npz", {"s": [np.zeros(1), np.ones(2)]})
    assert {name: array.tolist() for name, array in read_npz(tmp_path / "o.npz").items()} == {
        "s.0": [0.0],
        "s.1": [1.0, 1.0],
    }


def test_types_that_numpy_does_not_know_are_written_as_their_bytes(tmp_path: Path) -> None:
    array = np.array([1, 2.5], ml_dtypes.bfloat16)
    write_npz(tmp_path / "o.npz", {"b": array})
    read = arrays_in(tmp_path / "o.npz")["b"]
    assert read.view(ml_dtypes.bfloat16).tolist() == [1, 2.5]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "output 'y' cannot be written: it is nothing"),
        ({1: 2.0}, "output 'y' cannot be written: it is a map"),
        ([{1: 2.0}], r"output 'y\.0' cannot be written: it is a map"),
        (np.array([{}], dtype=object), "it holds Python objects, not numbers or texts"),
        (np.array(["a\0"], dtype=object), "drop the NUL at the end of a text"),
    ],
)
def test_what_an_npz_cannot_hold_is_refused(tmp_path: Path, value: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        write_npz(tmp_path / "o.npz", {"y": value})
    assert list(tmp_path.iterdir()) == []


def test_a_name_with_a_nul_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="names in npz files end at a NUL"):
        write_npz(tmp_path / "o.npz", {"a\0b": np.zeros(1)})


posix = pytest.mark.skipif(os.name != "posix", reason="permissions and special files of POSIX")


@posix
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_gets_the_permissions_that_new_files_get(
    tmp_path: Path, umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        write_npz(tmp_path / "o.npz", {"y": np.zeros(1)})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "o.npz").stat().st_mode) == mode


@posix
def test_a_file_that_is_replaced_leaves_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "o.npz").write_bytes(b"old")
    (tmp_path / "o.npz").chmod(0o640)
    write_npz(tmp_path / "o.npz", {"y": np.zeros(1)})
    assert stat.S_IMODE((tmp_path / "o.npz").stat().st_mode) == 0o640
    assert "y" in read_npz(tmp_path / "o.npz")


def test_a_read_only_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "o.npz").write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UsageError, match=r"cannot write .*it is read-only"):
        write_npz(tmp_path / "o.npz", {"y": np.zeros(1)})
    assert (tmp_path / "o.npz").read_bytes() == b"old"


@posix
@pytest.mark.parametrize("exists", [True, False])
def test_a_symbolic_link_is_followed(tmp_path: Path, exists: bool) -> None:
    target = tmp_path / "there" / "real.npz"
    target.parent.mkdir()
    if exists:
        target.write_bytes(b"old")
    (tmp_path / "o.npz").symlink_to(target)
    write_npz(tmp_path / "o.npz", {"y": np.zeros(1)})
    assert (tmp_path / "o.npz").is_symlink()
    assert "y" in read_npz(target)
    assert [path.name for path in target.parent.iterdir()] == ["real.npz"]


@posix
def test_a_device_stays_a_device(tmp_path: Path) -> None:
    write_npz(Path(os.devnull), {"y": np.zeros(1)})
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


@posix
def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.npz"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_npz(pipe, {"y": np.arange(3)})
    reader.join(10)
    assert np.load(io.BytesIO(read[0]))["y"].tolist() == [0, 1, 2]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        write_npz(tmp_path, {"y": np.zeros(1)})
