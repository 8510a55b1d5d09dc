"""Compiled contexts that functions of the caller take and give, in place of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ortpkg
from ortpkg.foundations.errors import (
    EpContextError,
    EpContextWriteError,
    InvalidSessionOptionError,
    UsageError,
)
from tests.session.conftest import compiling

FEEDS = {"x": np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)}
MOST = 1 << 20


class Shelf:
    """Where a program keeps contexts; both functions."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.asked: list[str] = []

    def write(self, name: str, data: ortpkg.OrtEpContextData) -> None:
        half = data.size // 2
        self.kept[name] = data.read(length=half) + data.read(half)

    def read(self, name: str, room: ortpkg.OrtEpContextDataBuffer) -> None:
        self.asked.append(name)
        content = self.kept[name]
        room.allocate(len(content))
        room.write(content[:100])
        room.write(content[100:], offset=100)

    def reading(self, most: int = MOST) -> ortpkg.SessionOptions:
        options = compiling()
        options.set_ep_context_data_read_func(self.read, most)
        return options


def compiled(path: Path, shelf: Shelf) -> bytes:
    compiler = ortpkg.ModelCompiler(compiling(), path)
    compiler.set_ep_context_data_write_func(shelf.write)
    return compiler.compile_to_bytes()


def outputs(model: Path | bytes, options: ortpkg.SessionOptions | None = None) -> Any:
    with ortpkg.InferenceSession(model, options) as session:
        return session.run(None, FEEDS)[0]


def test_a_function_takes_the_contexts_and_another_gives_them_back(path: Path) -> None:
    shelf = Shelf()
    model = compiled(path, shelf)
    assert list(shelf.kept) == ["model_ctx_llvm.bin"]
    np.testing.assert_array_equal(outputs(model, shelf.reading()), outputs(path, compiling()))
    assert shelf.asked == ["model_ctx_llvm.bin"]


def test_no_file_lies_beside_the_compiled_model_then(path: Path) -> None:
    shelf, compiler = Shelf(), ortpkg.ModelCompiler(compiling(), path)
    compiler.set_ep_context_data_write_func(shelf.write)
    compiler.compile_to_file()
    assert {each.name for each in path.parent.iterdir()} == {"model.onnx", "model_ctx.onnx"}
    assert list(shelf.kept) == ["model_llvm.bin"]
    np.testing.assert_array_equal(
        outputs(path.with_name("model_ctx.onnx"), shelf.reading()), outputs(path, compiling())
    )


def test_a_cleared_function_is_not_called(path: Path) -> None:
    shelf, compiler = Shelf(), ortpkg.ModelCompiler(compiling(), path)
    compiler.set_ep_context_data_write_func(shelf.write)
    compiler.clear_ep_context_data_write_func()
    compiler.compile_to_file()
    options = shelf.reading()
    options.clear_ep_context_data_read_func()
    np.testing.assert_array_equal(
        outputs(path.with_name("model_ctx.onnx"), options), outputs(path, compiling())
    )
    assert not shelf.kept
    assert not shelf.asked


def test_embedded_contexts_stay_in_the_model(path: Path) -> None:
    shelf, compiler = (
        Shelf(),
        ortpkg.ModelCompiler(compiling(), path, embed_compiled_data_into_model=True),
    )
    compiler.set_ep_context_data_write_func(shelf.write)
    np.testing.assert_array_equal(
        outputs(compiler.compile_to_bytes(), shelf.reading()), outputs(path, compiling())
    )
    assert not shelf.kept
    assert not shelf.asked


def test_a_function_that_fails_ends_compiling_and_leaves_no_file(path: Path) -> None:
    def full(name: str, data: ortpkg.OrtEpContextData) -> None:
        raise OSError("no room")

    compiler = ortpkg.ModelCompiler(compiling(), path)
    compiler.set_ep_context_data_write_func(full)
    with pytest.raises(EpContextWriteError, match=r"'model_llvm\.bin', failed: OSError: no room"):
        compiler.compile_to_file()
    assert [each.name for each in path.parent.iterdir()] == ["model.onnx"]


def test_what_cannot_be_read_ends_the_session(path: Path) -> None:
    shelf = Shelf()
    model = compiled(path, shelf)
    nbytes = len(shelf.kept["model_ctx_llvm.bin"])
    with pytest.raises(
        EpContextError, match=f"a context may have {nbytes - 1} bytes here, not {nbytes}"
    ):
        outputs(model, shelf.reading(nbytes - 1))
    shelf.kept = {"model_ctx_llvm.bin": b"x" * 200}
    with pytest.raises(
        EpContextError, match=r"the context that the function gave for 'model_ctx_llvm\.bin'"
    ):
        outputs(model, shelf.reading())
    shelf.kept = {}
    with pytest.raises(EpContextError, match=r"failed: KeyError: 'model_ctx_llvm\.bin'"):
        outputs(model, shelf.reading())
    silent = compiling()
    silent.set_ep_context_data_read_func(lambda name, room: None, MOST)
    with pytest.raises(EpContextError, match="returned without data"):
        outputs(model, silent)


def test_room_is_allocated_once_within_its_bounds_and_written_within_its_size() -> None:
    room = ortpkg.OrtEpContextDataBuffer(10)
    assert (room.max_size, room.is_allocated, room.size) == (10, False, 0)
    with pytest.raises(UsageError, match="allocate the data"):
        room.write(b"1")
    with pytest.raises(UsageError, match="may have 10 bytes here, not 11"):
        room.allocate(11)
    room.allocate(4)
    assert (room.is_allocated, room.size) == (True, 4)
    with pytest.raises(UsageError, match="allocated once"):
        room.allocate(4)
    with pytest.raises(UsageError, match="do not fit into 4"):
        room.write(b"123", offset=2)
    room.write(bytearray(b"12"), 2)
    assert bytes(room.end() or b"") == b"\0\x0012"
    with pytest.raises(UsageError, match="during the call only"):
        room.write(b"1")


def test_data_is_read_within_its_bounds_and_during_the_call() -> None:
    data = ortpkg.OrtEpContextData(memoryview(b"12345"))
    assert (data.size, data.read(), data.read(3), data.read(1, 2), data.read(5)) == (
        5,
        b"12345",
        b"45",
        b"23",
        b"",
    )
    for offset, length in ((6, None), (-1, 2), (0, 6), (2, -1)):
        with pytest.raises(UsageError, match="a context of 5 bytes has no"):
            data.read(offset, length)
    data.end()
    with pytest.raises(UsageError, match="during the call only"):
        data.read()


def test_wrong_functions_and_bounds_are_refused_as_onnxruntime_does(path: Path) -> None:
    options: Any = ortpkg.SessionOptions()
    compiler: Any = ortpkg.ModelCompiler(compiling(), path)
    for register, *most in (
        (options.set_ep_context_data_read_func, 1),
        (compiler.set_ep_context_data_write_func,),
    ):
        with pytest.raises(RuntimeError, match="must not be None"):
            register(None, *most)
        with pytest.raises(TypeError, match="a function is needed, not int"):
            register(3, *most)
    with pytest.raises(RuntimeError, match="more than 0"):
        options.set_ep_context_data_read_func(print, 0)
    for wrong in (-1, "1", 1.5, 1 << 64):
        with pytest.raises(TypeError, match="max_data_size is a number of bytes"):
            options.set_ep_context_data_read_func(print, wrong)


def test_a_group_writes_its_own_file(path: Path) -> None:
    options = compiling()
    for key in ("ep.context_enable", "ep.share_ep_contexts", "ep.stop_share_ep_contexts"):
        options.add_session_config_entry(key, "1")
    options.set_ep_context_data_write_func(print)
    with pytest.raises(InvalidSessionOptionError, match="the binary of a session group is a file"):
        ortpkg.InferenceSession(path, options)
