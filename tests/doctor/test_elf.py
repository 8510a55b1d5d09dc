"""Which libraries a native library needs: on constructed files, and on this system's own."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from ortpkg.doctor.elf import NeededLibraries, missing_libraries, read_needed


def _library(path: Path, *, needed: tuple[str, ...], run_path: str = "", order: str = "<") -> Path:
    """A file with the parts of an ELF library that say what it needs (System V ABI, chapters 4 and
    5).
    """
    strings = b"\0"
    entries = []
    for tag, text in [*((1, name) for name in needed), *([(29, run_path)] if run_path else [])]:
        entries.append((tag, len(strings)))
        strings += text.encode() + b"\0"
    dynamic_at, strings_at = 64 + 2 * 56, 64 + 2 * 56 + 16 * (len(entries) + 3)
    entries += [(5, 0x1000 + strings_at), (10, len(strings)), (0, 0)]
    dynamic = b"".join(struct.pack(f"{order}qQ", tag, value) for tag, value in entries)
    size = strings_at + len(strings)
    ident = b"\x7fELF\x02" + (b"\x01" if order == "<" else b"\x02") + b"\x01" + bytes(9)
    header = ident + struct.pack(f"{order}HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    load = struct.pack(f"{order}IIQQQQQQ", 1, 5, 0, 0x1000, 0x1000, size, size, 0x1000)
    where = struct.pack(
        f"{order}IIQQQQQQ", 2, 6, dynamic_at, 0x1000 + dynamic_at, 0, len(dynamic), len(dynamic), 8
    )
    path.write_bytes(header + load + where + dynamic + strings)
    return path


@pytest.mark.parametrize("order", ["<", ">"])
def test_reads_what_a_library_needs_and_where_it_looks(tmp_path: Path, order: str) -> None:
    path = _library(
        tmp_path / "x.so",
        needed=("libA.so.1", "libB.so"),
        run_path="$ORIGIN/../libs:/opt",
        order=order,
    )

    assert read_needed(path) == NeededLibraries(
        names=("libA.so.1", "libB.so"), run_paths=("$ORIGIN/../libs", "/opt")
    )


def test_names_what_no_place_has(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for place in ("libs", "beside", "more", "root/usr/lib", "root/etc"):
        (tmp_path / place).mkdir(parents=True)
    path = _library(
        tmp_path / "beside" / "x.so",
        needed=(
            "libRunPath.so",
            "libSystem.so",
            "libCache.so",
            "libGiven.so",
            "libPath.so",
            "libGone.so",
        ),
        run_path="$ORIGIN/../libs",
    )
    for place in (
        "libs/libRunPath.so",
        "root/usr/lib/libSystem.so",
        "more/libGiven.so",
        "more/libPath.so",
    ):
        (tmp_path / place).touch()
    (root / "etc/ld.so.cache").write_bytes(b"glibc-ld.so.cache1.1\0libCache.so\0/x/libCache.so\0")

    assert missing_libraries(path, root=root, search=[tmp_path / "more"]) == ("libGone.so",)
    assert missing_libraries(path, root=root, library_path=f"/none:{tmp_path / 'more'}") == (
        "libGone.so",
    )
    assert missing_libraries(path, root=root) == ("libGiven.so", "libGone.so", "libPath.so")


@pytest.mark.parametrize("cut", [0, 4, 20, 63, 64, 100, 150, 180, 200])
def test_a_damaged_file_is_no_knowledge_and_no_error(tmp_path: Path, cut: int) -> None:
    path = _library(tmp_path / "x.so", needed=("libA.so.1",))
    path.write_bytes(path.read_bytes()[:cut])

    assert missing_libraries(path, root=tmp_path) in ((), ("",))


def test_garbage_is_no_knowledge(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    for seed in range(200):
        path.write_bytes(b"\x7fELF\x02\x01\x01" + os.urandom(300 + seed))
        read_needed(path)
    path.write_bytes(b"MZ" + bytes(100))

    assert read_needed(path) is None
    assert read_needed(tmp_path) is None
    assert read_needed(tmp_path / "none") is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads this system's own libraries")
def test_a_library_that_this_process_has_loaded_lacks_nothing() -> None:
    numpy = pytest.importorskip("numpy")
    libraries = sorted(Path(numpy.__file__).parent.rglob("_multiarray_umath*.so"))
    assert libraries

    assert read_needed(libraries[0]) is not None
    assert (
        missing_libraries(libraries[0], search=[Path(numpy.__file__).parents[1] / "numpy.libs"])
        == ()
    )


@pytest.mark.skipif(sys.platform != "linux", reason="compares with ldd")
def test_agrees_with_ldd_on_a_library_that_lacks_something() -> None:
    openvino = pytest.importorskip("openvino")
    path = Path(openvino.__file__).parent / "libs" / "libopenvino_intel_gpu_plugin.so"
    if not path.is_file():
        pytest.skip("this build of openvino has no GPU plug-in")
    told = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False).stdout
    lacking = {line.split()[0] for line in told.splitlines() if line.endswith("not found")}

    assert set(missing_libraries(path)) == lacking
