"""Windows interfaces of the probe: registry, present devices, memory, CPU features.

Nothing is started and no driver is loaded. Sources: Microsoft's documentation of ``winreg``'s
functions, CM_Get_Device_ID_ListW (cfgmgr32) and IsProcessorFeaturePresent (kernel32).
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ortpkg.foundations.host.memory import physical_memory_nbytes

Value = str | int | bytes | Sequence[str] | None

_GETIDLIST_FILTER_PRESENT = 0x00000100
_GETIDLIST_FILTER_CLASS = 0x00000200
_MOST_CHARACTERS = 1 << 20
_MOST_KEYS = 4096


class WindowsInterfaces(Protocol):
    """Queries of the probe; a test answers them from recordings."""

    def values(self, key: str) -> Mapping[str, Value]:
        """Return the values of a key under HKEY_LOCAL_MACHINE; empty if there is no such key."""
        ...

    def subkeys(self, key: str) -> Sequence[str]:
        """Return the names of the keys below a key."""
        ...

    def present_devices(self, class_guid: str) -> Sequence[str]:
        """Return the instance ids of the devices of a set-up class that are present now."""
        ...

    def memory_nbytes(self) -> tuple[int | None, int | None]:
        """Return the physical memory: total, and available now."""
        ...

    def has_feature(self, number: int) -> bool:
        """Return True if the processor has the feature of this number (PF_...)."""
        ...


class ThisWindows:
    """The running machine. A query that Windows does not answer has an empty answer."""

    def values(self, key: str) -> dict[str, Value]:
        """Return the values of a key under HKEY_LOCAL_MACHINE by name.

        None if it cannot be read.
        """
        winreg = _winreg()
        values: dict[str, Value] = {}
        if winreg is None:
            return values
        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as opened:
                for number in range(min(winreg.QueryInfoKey(opened)[1], _MOST_KEYS)):
                    name, value, _ = winreg.EnumValue(opened, number)
                    values[name] = value
        except OSError:
            return values
        return values

    def subkeys(self, key: str) -> list[str]:
        """Return the names of the keys below a key of HKEY_LOCAL_MACHINE.

        None if it cannot be read.
        """
        winreg = _winreg()
        if winreg is None:
            return []
        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as opened:
                count = min(winreg.QueryInfoKey(opened)[0], _MOST_KEYS)
                return [winreg.EnumKey(opened, number) for number in range(count)]
        except OSError:
            return []

    def present_devices(self, class_guid: str) -> list[str]:
        """Return the instance ids of the devices of a class that are present now."""
        library = _library("cfgmgr32")
        if library is None:
            return []
        flags = _GETIDLIST_FILTER_CLASS | _GETIDLIST_FILTER_PRESENT
        length = ctypes.c_ulong(0)
        if library.CM_Get_Device_ID_List_SizeW(ctypes.byref(length), class_guid, flags) != 0:
            return []
        if not 0 < length.value <= _MOST_CHARACTERS:
            return []
        texts = ctypes.create_unicode_buffer(length.value)
        if library.CM_Get_Device_ID_ListW(class_guid, texts, length, flags) != 0:
            return []
        listed = ctypes.wstring_at(ctypes.addressof(texts), length.value)
        return [text for text in listed.split("\0") if text]

    def memory_nbytes(self) -> tuple[int | None, int | None]:
        return physical_memory_nbytes()

    def has_feature(self, number: int) -> bool:
        """Return True if the processor has the feature of this number (``PF_...`` of winnt.h)."""
        library = _library("kernel32")
        return library is not None and bool(library.IsProcessorFeaturePresent(number))


def _winreg() -> Any:
    """Return the module of the standard library; None except on Windows."""
    try:
        return importlib.import_module("winreg")
    except ImportError:
        return None


def _library(name: str) -> Any:
    """Return a library of the system; None except on Windows."""
    windll = getattr(ctypes, "WinDLL", None)
    try:
        return None if windll is None else windll(name)
    except OSError:
        return None
