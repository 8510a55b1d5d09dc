"""Bytes of mapped files, and the memory that they take."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from ortpkg.graph.byte_source import MappedFile, release_pages

_NBYTES = 8 << 20


def _resident_nbytes(path: Path) -> int:
    """Of this process's mappings of a file."""
    found, is_within = 0, False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        first = line.split()[0]
        if not first.endswith(":"):
            is_within = line.endswith(str(path))
        elif is_within and first == "Rss:":
            found += int(line.split()[1]) << 10
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/smaps")
def test_released_pages_of_a_mapped_file_take_no_memory_until_they_are_read_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "weights.bin"
    expected = np.arange(_NBYTES // 4, dtype=np.uint32)
    expected.tofile(path)
    mapped = MappedFile(path).array(64, _NBYTES - 64).view(np.uint32).reshape(16, -1)
    np.testing.assert_array_equal(mapped.reshape(-1), expected[16:])
    assert _resident_nbytes(path) == _NBYTES
    release_pages(mapped)
    assert _resident_nbytes(path) == 0
    np.testing.assert_array_equal(mapped.reshape(-1), expected[16:])


def test_releasing_an_array_of_other_memory_does_nothing_to_it(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    np.arange(1000, dtype=np.uint8).tofile(path)
    strided = MappedFile(path).array(0, 1000)[::3]
    own = np.ones(100_000, np.float32)
    for each in (strided, own, np.empty(0, np.float32), MappedFile(path).array(1000, 0)):
        release_pages(each)
    assert own.sum() == 100_000
    np.testing.assert_array_equal(strided, np.arange(0, 1000, 3).astype(np.uint8))
