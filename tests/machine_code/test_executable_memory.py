from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ortpkg.compiler.machine_code.executable_memory import ExecutableCode, map_code
from ortpkg.compiler.machine_code.executable_pages import MacosPages, WindowsPages
from ortpkg.foundations.errors import ExecutionProviderError

PAGE = mmap.PAGESIZE
linux = pytest.mark.skipif(sys.platform != "linux", reason="maps as Linux does")


def constant(number: int) -> bytes:
    """Code of this machine that returns a number, and more bytes than a page."""
    if os.uname().machine == "aarch64":
        move = 0x52800000 | (number & 0xFFFF) << 5  # mov w0, #number
        code = move.to_bytes(4, "little") + bytes.fromhex("c0035fd6")
    else:
        code = b"\xb8" + number.to_bytes(4, "little") + b"\xc3"  # mov eax, number; ret
    return code + bytes(PAGE + 100)


def called(code: ExecutableCode) -> int:
    return int(ctypes.CFUNCTYPE(ctypes.c_int)(code.address)())


def protections_at(address: int) -> list[str]:
    found = []
    for row in Path("/proc/self/maps").read_text().splitlines():
        span, protection, *_ = row.split()
        start, end = (int(each, 16) for each in span.split("-"))
        if start <= address < end:
            found.append(protection)
    return found


@linux
def test_code_can_be_run_and_not_written() -> None:
    with map_code(constant(7001)) as code:
        assert called(code) == 7001
        assert code.address % PAGE == 0
        assert code.nbytes == len(constant(7001))
        assert protections_at(code.address) == ["r-xp"]


@linux
def test_equal_code_is_mapped_once_until_its_last_user_closes() -> None:
    first, second = map_code(constant(7002)), map_code(memoryview(constant(7002)))
    other = map_code(constant(7003))
    assert first.address == second.address != other.address
    first.close()
    first.close()
    assert called(second) == 7002
    second.close()
    assert protections_at(second.address) in ([], protections_at(other.address))
    other.close()
    assert protections_at(other.address) == []


@linux
def test_another_hold_outlives_the_first() -> None:
    first = map_code(constant(7010))
    second = first.another()
    first.close()
    assert called(second) == 7010
    second.close()
    assert protections_at(second.address) == []
    with pytest.raises(ValueError, match="no longer held"):
        first.another()


@linux
def test_what_nobody_closed_is_unmapped_with_its_last_user() -> None:
    code = map_code(constant(7004))
    address = code.address
    del code
    assert protections_at(address) == []


@linux
def test_code_of_a_mapped_file_outlives_its_being_cut(tmp_path: Path) -> None:
    path = tmp_path / "context.bin"
    path.write_bytes(constant(7006))
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with map_code(memoryview(mapped)) as code:
        os.truncate(path, 0)
        assert called(code) == 7006


@linux
def test_a_refusal_of_the_system_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "memfd_create", refuse)
    with pytest.raises(
        ExecutionProviderError,
        match="the system allows no executable memory here: 'Permission denied'; the code cannot be run",
    ):
        map_code(constant(7007))


@linux
def test_descriptors_are_closed_however_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(mmap, "mmap", lambda *_, **__: (_ for _ in ()).throw(OSError("no")))
    for _ in range(3):
        with pytest.raises(ExecutionProviderError, match="allows no executable memory here: 'no'"):
            map_code(constant(7008))
    monkeypatch.undo()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@linux
def test_a_fork_runs_the_code_of_its_parent_and_maps_its_own() -> None:
    program = f"""
import os, ctypes
from ortpkg.compiler.machine_code.executable_memory import map_code, _MAPPED
call = lambda code: ctypes.CFUNCTYPE(ctypes.c_int)(code.address)()
code = map_code({constant(7009)[:16]!r})
_MAPPED._lock.acquire()
child = os.fork()
if child == 0:
    assert call(code) == 7009
    os._exit(call(map_code({constant(55)[:16]!r})))
_MAPPED._lock.release()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "55\n"


class _Calls:
    """Functions of a C library that write down how they are called."""

    def __init__(self, answers: dict[str, Callable[..., Any]]) -> None:
        self.calls: list[tuple[Any, ...]] = []
        for name, answer in answers.items():
            setattr(self, name, self._function(name, answer))

    def _function(self, name: str, answer: Callable[..., Any]) -> Any:
        def call(*arguments: Any) -> Any:
            self.calls.append((name, *arguments))
            return answer(*arguments)

        return call


@pytest.fixture
def room() -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(64)


def test_macos_is_asked_for_pages_that_a_thread_writes_or_runs(
    room: ctypes.Array[ctypes.c_char],
) -> None:
    address = ctypes.addressof(room)
    library = _Calls(
        {
            "mmap": lambda *_: address,
            "munmap": lambda *_: 0,
            "pthread_jit_write_protect_np": lambda *_: None,
            "sys_icache_invalidate": lambda *_: None,
        }
    )
    pages = MacosPages(library).map_bytes(memoryview(b"code"))
    assert room.raw[:4] == b"code"
    pages.release()
    assert library.calls == [
        ("mmap", None, 4, 7, 0x1802, -1, 0),
        ("pthread_jit_write_protect_np", 0),
        ("pthread_jit_write_protect_np", 1),
        ("sys_icache_invalidate", address, 4),
        ("munmap", address, 4),
    ]


def test_windows_pages_are_written_before_they_can_be_run(
    room: ctypes.Array[ctypes.c_char],
) -> None:
    address = ctypes.addressof(room)
    kernel32 = _Calls(
        {
            "VirtualAlloc": lambda *_: address,
            "VirtualProtect": lambda *_: int(room.raw[:4] == b"code"),
            "VirtualFree": lambda *_: 1,
            "GetCurrentProcess": lambda: -1,
            "FlushInstructionCache": lambda *_: 1,
        }
    )
    pages = WindowsPages(kernel32).map_bytes(memoryview(b"code"))
    pages.release()
    assert [call[:4] for call in kernel32.calls] == [
        ("VirtualAlloc", None, 4, 0x3000),
        ("VirtualProtect", address, 4, 0x20),
        ("GetCurrentProcess",),
        ("FlushInstructionCache", -1, address, 4),
        ("VirtualFree", address, 0, 0x8000),
    ]
    assert kernel32.calls[0][4] == 0x04


@pytest.mark.parametrize("refused", ["VirtualAlloc", "VirtualProtect"])
def test_windows_refusing_is_the_same_error_and_leaks_nothing(
    refused: str, room: ctypes.Array[ctypes.c_char]
) -> None:
    answers: dict[str, Callable[..., Any]] = {
        "VirtualAlloc": lambda *_: ctypes.addressof(room),
        "VirtualProtect": lambda *_: 1,
        "VirtualFree": lambda *_: 1,
        "GetCurrentProcess": lambda: -1,
        "FlushInstructionCache": lambda *_: 1,
    }
    answers[refused] = lambda *_: 0
    kernel32 = _Calls(answers)
    with pytest.raises(ExecutionProviderError, match="allows no executable memory here"):
        map_code(b"code", source=WindowsPages(kernel32))
    names = [call[0] for call in kernel32.calls]
    assert names.count("VirtualFree") == (refused == "VirtualProtect")


def test_macos_refusing_is_the_same_error() -> None:
    library = _Calls(
        {
            "mmap": lambda *_: ctypes.c_void_p(-1).value,
            "munmap": lambda *_: 0,
            "sys_icache_invalidate": lambda *_: None,
        }
    )
    with pytest.raises(ExecutionProviderError, match="allows no executable memory here"):
        map_code(b"code", source=MacosPages(library))
