"""The cache of compiled kernels: what comes back, what is not believed, what makes room."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ortpkg.compiler.machine_code.kernel_cache import CachedKernel, KernelCache
from ortpkg.runtime.ep_context.ep_context_cache import EpContextCache

_KEY = "ab" * 32
_KERNEL = CachedKernel(functions={"kernel": 2}, code=b"\x90\n\x90\xc3")


def test_a_kernel_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    KernelCache(tmp_path / "kernels").write({_KEY: _KERNEL})
    assert KernelCache(tmp_path / "kernels").read(_KEY) == _KERNEL


def test_a_kernel_that_nobody_kept_is_not_there(tmp_path: Path) -> None:
    assert KernelCache(tmp_path / "kernels").read(_KEY) is None


@pytest.mark.parametrize("place", [0, 20, 60, -1])
def test_a_changed_byte_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, place: int
) -> None:
    cache = KernelCache(tmp_path)
    cache.write({_KEY: _KERNEL})
    (path,) = cache.files()
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    assert cache.read(_KEY) is None
    assert "is damaged, and compiled anew" in caplog.text


def test_a_file_under_the_name_of_another_key_is_not_taken(tmp_path: Path) -> None:
    cache, other = KernelCache(tmp_path), "cd" * 32
    cache.write({other: _KERNEL})
    cache.files()[0].rename(tmp_path / f"{_KEY}.kernel")
    assert cache.read(_KEY) is None


def test_what_was_used_least_recently_makes_room(tmp_path: Path) -> None:
    keys = [digit * 64 for digit in "0123"]
    kernels = {key: CachedKernel(functions={}, code=bytes(1000)) for key in keys}
    KernelCache(tmp_path).write(kernels)
    for age, key in enumerate(keys):
        os.utime(tmp_path / f"{key}.kernel", (age, age))
    cache = KernelCache(tmp_path, most_nbytes=2600)
    assert cache.read(keys[0]) is not None  # used now
    cache.write({keys[3]: kernels[keys[3]]})
    assert [path.stem for path in cache.files()] == [keys[0], keys[3]]


def test_a_folder_that_cannot_be_made_keeps_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    cache = KernelCache(tmp_path / "file" / "kernels")
    cache.write({_KEY: _KERNEL})
    assert cache.files() == []
    assert "compiled kernels cannot be kept" in caplog.text


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such rights")
def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    cache = EpContextCache(tmp_path)
    assert cache.kernels is not None
    cache.kernels.directory.mkdir()
    cache.kernels.directory.chmod(0o777)
    assert cache.kernels is None
