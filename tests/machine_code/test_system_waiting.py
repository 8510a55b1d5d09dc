from __future__ import annotations

import ctypes
import sys
from typing import Any

import pytest

from ortpkg.compiler.machine_code.system_waiting import WaitFunctions, functions_of, wait_functions

SYSTEMS = {
    "linux": ["syscall"],
    "macos": ["__ulock_wait", "__ulock_wake"],
    "windows": ["WaitOnAddress", "WakeByAddressAll"],
}
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux's C library")
def test_this_system_has_them() -> None:
    found = wait_functions()
    assert found.wait == found.wake != 0


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_system_has_its_own(system: str) -> None:
    asked: list[str] = []

    class Library:
        def __getitem__(self, name: str) -> Any:
            asked.append(name)
            return FUNCTION

    address = ctypes.cast(FUNCTION, ctypes.c_void_p).value
    assert functions_of(system, Library) == WaitFunctions(address or 0, address or 0)
    assert sorted(set(asked)) == sorted(SYSTEMS[system])


def test_a_system_that_lacks_them_has_none() -> None:
    def missing() -> Any:
        raise OSError("no such library")

    assert functions_of("windows", missing) == WaitFunctions(0, 0)
    assert functions_of("macos", lambda: ctypes.CDLL(None)) == WaitFunctions(0, 0)
