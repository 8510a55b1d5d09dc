"""Pages of mapped files are given back, those of mappings that may have been written to are not."""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path

import pytest

from ortpkg.host.memory import resident_nbytes
from ortpkg.providers.mapped_pages import release_mapped_pages, trim_heap

NBYTES = 4 << 20

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux tells of mappings"
)


def resident_kilobytes(path: Path) -> int:
    found, is_own = 0, False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        if "-" in line.split()[0] and not line.split()[0].endswith(":"):
            is_own = line.endswith(str(path))
        elif is_own and line.startswith("Rss:"):
            found += int(line.split()[1])
    return found


@pytest.mark.parametrize("name", ["weights.bin", "weights of a model.bin"])
def test_pages_go_and_come_back_as_they_were(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"ab" * (NBYTES // 2))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
        assert mapping[:].count(b"ab") == NBYTES // 2
        assert resident_kilobytes(path) >= NBYTES >> 10
        release_mapped_pages(path)
        assert resident_kilobytes(path) == 0
        assert mapping[:] == path.read_bytes()


def test_what_was_written_to_a_private_mapping_stays(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(NBYTES))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapping:
        mapping[7] = 1
        release_mapped_pages(path)
        assert mapping[7] == 1


def test_a_file_that_is_not_mapped_or_not_there_is_nothing(tmp_path: Path) -> None:
    mapped, unmapped = tmp_path / "weights.bin", tmp_path / "other.bin"
    mapped.write_bytes(b"ab" * (NBYTES // 2))
    unmapped.write_bytes(b"ab")
    with mapped.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
        assert mapping[:].count(b"ab") == NBYTES // 2
        release_mapped_pages(tmp_path / "nowhere.bin")
        release_mapped_pages(unmapped)
        assert resident_kilobytes(mapped) >= NBYTES >> 10


def test_what_was_freed_goes_back_to_the_system() -> None:
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("the C library is not glibc")
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = (
        ctypes.c_void_p,
        (ctypes.c_size_t,),
        (ctypes.c_void_p,),
    )
    taken = [libc.malloc(100_000) for _ in range(400)]
    for place in taken:
        ctypes.memset(place, 1, 100_000)
    for place in taken[:-1]:  # the last one keeps the heap from shrinking by itself
        libc.free(place)
    before = resident_nbytes()
    trim_heap()
    assert before - resident_nbytes() > 20_000_000
    libc.free(taken[-1])
