"""Adapter files: onnxruntime reads ours, we read its, and damage is an error."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ortpkg
from ortpkg.foundations.errors import AdapterFileError, UsageError

_TENSORS: dict[str, Any] = {
    "a": np.arange(10, dtype=np.float32).reshape(5, 2),
    "a longer name, with ü": np.arange(10, dtype=np.int64).reshape(2, 5),
    "half": np.array([1.5, -2], np.float16),
    "empty": np.zeros((0, 3), np.float32),
}


def write(module: Any, path: Path) -> None:
    made = module.AdapterFormat()
    made.set_adapter_version(3)
    made.set_model_version(4)
    made.set_parameters(
        {name: module.OrtValue.ortvalue_from_numpy(array) for name, array in _TENSORS.items()}
    )
    made.export_adapter(str(path))


def assert_read(module: Any, path: Path) -> None:
    read = module.AdapterFormat.read_adapter(str(path))
    assert (read.get_format_version(), read.get_adapter_version(), read.get_model_version()) == (
        1,
        3,
        4,
    )
    found = read.get_parameters()
    assert found.keys() == _TENSORS.keys()
    for name, array in _TENSORS.items():
        assert found[name].numpy().dtype == array.dtype
        np.testing.assert_array_equal(found[name].numpy(), array)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write(ortpkg, tmp_path / "a.onnx_adapter")
    assert_read(ortpkg, tmp_path / "a.onnx_adapter")


@pytest.mark.interop
def test_onnxruntime_reads_ours_and_we_read_its(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", minversion="1.31")
    write(ortpkg, tmp_path / "ours")
    assert_read(onnxruntime, tmp_path / "ours")
    write(onnxruntime, tmp_path / "theirs")
    assert_read(ortpkg, tmp_path / "theirs")


@pytest.mark.parametrize("array", [np.array(3.0), np.array(["text"])])
def test_scalars_and_texts_are_refused(array: Any) -> None:
    with pytest.raises(UsageError, match="tensors of numbers"):
        ortpkg.AdapterFormat().set_parameters({"a": ortpkg.OrtValue(array)})


def test_a_file_that_is_missing_or_no_adapter(tmp_path: Path) -> None:
    with pytest.raises(AdapterFileError, match="there is no adapter"):
        ortpkg.AdapterFormat.read_adapter(tmp_path / "none")
    for content in (b"", b"short", b"\x08\0\0\0NOPE" + bytes(40)):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(AdapterFileError):
            ortpkg.LoraAdapter().Load(tmp_path / "bad")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes among files")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AdapterFileError, match="it is not a regular file"):
        ortpkg.AdapterFormat.read_adapter(tmp_path / "pipe")


def test_damage_is_one_error_or_another_adapter(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(ortpkg, path)
    whole, chance, refused = path.read_bytes(), random.Random(7), 0
    for number in range(500):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged[: chance.randrange(len(damaged))] if number % 4 == 0 else damaged)
        try:
            ortpkg.AdapterFormat.read_adapter(path)
        except AdapterFileError:
            refused += 1
    assert refused > 200
