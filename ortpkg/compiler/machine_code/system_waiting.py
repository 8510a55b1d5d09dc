"""Functions of the operating system with which threads in compiled code wait and wake.

Compiled code calls nothing by name, but gets addresses: of ``syscall`` on Linux (for the futex), of
``__ulock_wait`` and ``__ulock_wake`` on macOS, of ``WaitOnAddress`` and
``WakeByAddressAll`` on Windows.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple


class WaitFunctions(NamedTuple):
    """Addresses; 0 if the system has no such function, and threads then only spin."""

    wait: int
    wake: int


@cache
def wait_functions() -> WaitFunctions:
    """Return the functions of the running system."""
    if sys.platform == "win32":
        return functions_of("windows", lambda: ctypes.WinDLL("api-ms-win-core-synch-l1-2-0"))
    system = "macos" if sys.platform == "darwin" else "linux"
    return functions_of(system, lambda: ctypes.CDLL(None))


def functions_of(system: str, load: Callable[[], Any]) -> WaitFunctions:
    """Return the functions of a system, from the library that ``load`` returns."""
    names = _NAMES[system]
    try:
        library = load()
        return WaitFunctions(*(_address(library[name]) for name in names))
    except (OSError, AttributeError):  # the system is too old, or has another C library
        return WaitFunctions(0, 0)


_NAMES = {
    "linux": ("syscall", "syscall"),
    "macos": ("__ulock_wait", "__ulock_wake"),
    "windows": ("WaitOnAddress", "WakeByAddressAll"),
}


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
