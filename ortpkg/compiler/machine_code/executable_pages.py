"""Pages of memory for code on each operating system; none is ever both writable and executable.

All of them copy the code, so that nobody can change it through its file. Linux maps a memory-only
file, which has no name and is sealed against writes. macOS provides pages for just-in-time
compilers, which a thread can write only while it cannot run them; Windows can change the protection
of pages.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

_MAP_JIT = 0x0800
_MAP_FAILED = ctypes.c_void_p(-1).value
_MEM_COMMIT_AND_RESERVE = 0x3000
_MEM_RELEASE = 0x8000
_PAGE_READWRITE = 0x04
_PAGE_EXECUTE_READ = 0x20
_SEAL = "ortpkg machine code"
#: Bytes that are mapped, and never called, to test whether the system allows it.
_NO_CODE = bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePages:
    """Pages with code: their address, and the function that frees them, to be called once."""

    address: int
    release: Callable[[], None]


class PageSource(Protocol):
    """Source of pages with code: an operating system."""

    def verify(self) -> None:
        """Raise OSError if the system provides this process no pages for code."""
        ...

    def map_bytes(self, code: memoryview) -> CodePages:
        """Return pages that contain this code; OSError if the system refuses."""
        ...


def page_source() -> PageSource:
    """Return the page source of the running system."""
    if sys.platform == "win32":
        return WindowsPages(ctypes.WinDLL("kernel32", use_last_error=True))
    if sys.platform == "darwin":
        return MacosPages(ctypes.CDLL(None, use_errno=True))
    return LinuxPages()


class LinuxPages:
    """Mappings of sealed, memory-only files."""

    def verify(self) -> None:
        """Raise OSError if a mapping is refused; see :class:`PageSource`."""
        self._map(memoryview(_NO_CODE)).close()

    def map_bytes(self, code: memoryview) -> CodePages:
        """Map a sealed file with this code; see :class:`PageSource`."""
        return _pages_of(self._map(code))

    @staticmethod
    def _map(code: memoryview) -> mmap.mmap:
        descriptor = os.memfd_create(_SEAL, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            _write_all(descriptor, code)
            _seal(descriptor)
            return mmap.mmap(
                descriptor,
                code.nbytes,
                flags=mmap.MAP_PRIVATE,
                prot=mmap.PROT_READ | mmap.PROT_EXEC,
            )
        finally:
            os.close(descriptor)


class MacosPages:
    """Pages for just-in-time compilers: ``MAP_JIT``."""

    def __init__(self, library: Any) -> None:
        """Declare the functions of ``library``, the C library."""
        self._library = library
        library.mmap.restype = ctypes.c_void_p
        library.mmap.argtypes = (
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_longlong,
        )
        library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        library.sys_icache_invalidate.argtypes = (ctypes.c_void_p, ctypes.c_size_t)

    def verify(self) -> None:
        """Raise OSError if a mapping is refused; see :class:`PageSource`."""
        self.map_bytes(memoryview(_NO_CODE)).release()

    def map_bytes(self, code: memoryview) -> CodePages:
        """Map ``MAP_JIT`` pages with this code; see :class:`PageSource`."""
        library, nbytes = self._library, code.nbytes
        # A thread can either write or execute such pages, never both.
        protection = 0x1 | 0x2 | 0x4  # PROT_READ, PROT_WRITE, PROT_EXEC
        address = library.mmap(None, nbytes, protection, 0x2 | 0x1000 | _MAP_JIT, -1, 0)
        if address in (None, _MAP_FAILED):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        library.pthread_jit_write_protect_np(0)
        try:
            _copy(address, code)
        finally:
            library.pthread_jit_write_protect_np(1)
        library.sys_icache_invalidate(address, nbytes)
        return CodePages(address=address, release=lambda: library.munmap(address, nbytes))


class WindowsPages:
    """Pages whose protection is changed after they are written."""

    def __init__(self, kernel32: Any) -> None:
        """Declare the functions of ``kernel32``."""
        self._kernel32 = kernel32
        kernel32.VirtualAlloc.restype = ctypes.c_void_p
        kernel32.VirtualAlloc.argtypes = (
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_uint32,
            ctypes.c_uint32,
        )
        kernel32.VirtualProtect.argtypes = (
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_uint32,
            ctypes.POINTER(ctypes.c_uint32),
        )
        kernel32.VirtualFree.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32)
        kernel32.GetCurrentProcess.restype = ctypes.c_void_p
        kernel32.FlushInstructionCache.argtypes = (
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_size_t,
        )

    def verify(self) -> None:
        """Raise OSError if an allocation is refused; see :class:`PageSource`."""
        self.map_bytes(memoryview(_NO_CODE)).release()

    def map_bytes(self, code: memoryview) -> CodePages:
        """Allocate pages with this code; see :class:`PageSource`."""
        kernel32, nbytes = self._kernel32, code.nbytes
        address = kernel32.VirtualAlloc(None, nbytes, _MEM_COMMIT_AND_RESERVE, _PAGE_READWRITE)
        if not address:
            raise _last_windows_error()
        _copy(address, code)
        before = ctypes.c_uint32()
        if not kernel32.VirtualProtect(address, nbytes, _PAGE_EXECUTE_READ, ctypes.byref(before)):
            refused = _last_windows_error()
            kernel32.VirtualFree(address, 0, _MEM_RELEASE)
            raise refused
        kernel32.FlushInstructionCache(kernel32.GetCurrentProcess(), address, nbytes)
        return CodePages(
            address=address, release=lambda: kernel32.VirtualFree(address, 0, _MEM_RELEASE)
        )


def _pages_of(pages: mmap.mmap) -> CodePages:
    import numpy as np  # imported here, since verify() does not need it

    address = int(np.frombuffer(pages, np.uint8).ctypes.data)
    return CodePages(address=address, release=pages.close)


def _write_all(descriptor: int, code: memoryview) -> None:
    left = code.cast("B")
    while left:
        left = left[os.write(descriptor, left) :]


def _seal(descriptor: int) -> None:
    import fcntl  # POSIX only

    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)


def _copy(address: int, code: memoryview) -> None:
    ctypes.memmove(address, bytes(code), code.nbytes)


def _last_windows_error() -> OSError:
    if sys.platform == "win32":
        return ctypes.WinError(ctypes.get_last_error())
    return OSError("the system gives no reason")  # in tests with a stand-in for Windows
