"""Damaged npy and npz files: a plain sentence for each reason, from every reader."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest

from ortpkg.authoring.checks.npz_headers import NpzError, read_npz_headers
from ortpkg.foundations.arrays.array_files import read_npy, read_npz
from ortpkg.foundations.errors import UsageError

#: Of the archive's first member: 30 bytes, its name, and what numpy adds.
HEADER_NBYTES = 30 + len("x.npy") + 20


def npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros(3, np.float32))
    return file.getvalue()


def npz() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, x=np.zeros(300, np.float32))
    return file.getvalue()


def with_bytes(data: bytes, start: int, new: bytes) -> bytes:
    return data[:start] + new + data[start + len(new) :]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "array 'x.npy' ends within its header"),
        (npy()[:7], "array 'x.npy' ends within its header"),
        (b"x" + npy()[1:], "array 'x.npy' does not begin as npy data does"),
        (with_bytes(npy(), 6, b"\7"), "npy files of version 7.0 are not known"),
        (
            npy().replace(b"}", b" ", 1),
            "array 'x.npy' has a damaged header, or one that is cut off",
        ),
        (
            npy().replace(b"'descr'", b"'descr(", 1),
            "array 'x.npy' has a damaged header, or one that is cut off",
        ),
        (npy()[:40], "array 'x.npy' has a damaged header, or one that is cut off"),
        (npy()[:-3], "array 'x.npy' ends after 9 of 12 bytes"),
    ],
)
def test_why_an_npy_file_cannot_be_read(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    # The array is too short for its header: said by the size of the file, before anything is read.
    with pytest.raises(UsageError) as caught:
        read_npy(path)
    assert str(caught.value) == f"cannot read {str(path)!r}: {reason}"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"rubbish", "it is no npz file (a zip archive), or its end is missing"),
        (npz()[:-30], "it is no npz file (a zip archive), or its end is missing"),
        (
            with_bytes(npz(), HEADER_NBYTES, b"\xff" * 8),
            "its compressed data is damaged or cut off",
        ),
    ],
)
def test_why_an_npz_file_cannot_be_read(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=f"cannot read .*: {re.escape(reason)}$"):
        read_npz(path)
    with pytest.raises(NpzError, match=f"cannot be read: {re.escape(reason)}$"):
        read_npz_headers(path)


def test_a_file_that_is_missing_is_said_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"x\.npz': No such file or directory$"):
        read_npz(tmp_path / "x.npz")
