"""Registers execution providers' libraries with onnxruntime, once per process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from ortpkg.foundations.errors import ExecutionProviderError, quoted
from ortpkg.runtime.providers.library_words import words_of

_lock = threading.Lock()
_LIBRARY_PATH = "library_path"
#: End of a registration name that allows a library to list devices that are not here, and the
#: metadata by which onnxruntime tells them.
_ABSENT_SUFFIX, _VIRTUAL = ".virtual", "is_virtual"
#: Libraries that write to standard output while they are loaded → beginning of such a line.
_TALKATIVE = {"libQnnHtp.so": b" # LIBNATIVE: "}
_loaded: set[str] = set()
#: Library → names of the EPs that came with it, for releases of onnxruntime (before 1.24.2) that do
#: not say whose an EP device is.
_names_by_path: dict[str, frozenset[str]] = {}


class LibraryRefusedError(ExecutionProviderError):
    """onnxruntime, or the system's loader, does not take a library; ``reason`` says why."""

    def __init__(self, message: str, *, ep_name: str, reason: str) -> None:
        super().__init__(message, ep_name=ep_name)
        self.reason = reason


def register_ep_library(
    onnxruntime: Any,
    ep_name: str,
    path: str,
    siblings: Collection[str] = (),
    *,
    allows_absent: bool = False,
) -> tuple[Any, ...]:
    """Register a library, unless it is registered; return onnxruntime's devices of its EP.

    A program may have registered the library under another name, which some EPs then have.

    Args:
        onnxruntime: the module.
        ep_name: the execution provider; the library is registered under this name.
        path: path of the library.
        siblings: names of other execution providers in the library.
        allows_absent: True to return only devices that this machine does not have, to compile
            for; the library must not have been registered without this.

    Raises:
        ExecutionProviderError: onnxruntime or the library refuses.
    """
    with _lock:
        devices = registered_devices(onnxruntime, path)
        if not devices:
            name = f"{ep_name}{_ABSENT_SUFFIX}" if allows_absent else ep_name
            added = _register(onnxruntime, ep_name, name, path)
            _names_by_path[path] = frozenset((ep_name, *siblings) if added is None else added)
            devices = registered_devices(onnxruntime, path)
        if allows_absent:
            return tuple(
                ep_device for ep_device in devices if _VIRTUAL in dict(ep_device.device.metadata)
            )
        named = tuple(ep_device for ep_device in devices if ep_device.ep_name == ep_name)
        # OpenVINO's meta devices are named after it: "OpenVINOExecutionProvider.AUTO".
        names = {*siblings, *(ep_device.ep_name for ep_device in devices)}
        others = tuple(ep_device for ep_device in devices if ep_device.ep_name not in siblings)
        return named or tuple(
            ep_device for ep_device in others if ep_device.ep_name.rpartition(".")[0] not in names
        )


def _register(onnxruntime: Any, ep_name: str, name: str, path: str) -> set[str] | None:
    """Register a library under ``name``; return the EPs that are new then.

    None if something was registered under that name before.

    Raises:
        LibraryRefusedError: onnxruntime or the library refuses.
    """
    release = f"onnxruntime {onnxruntime.__version__}"
    register = getattr(onnxruntime, "register_execution_provider_library", None)
    if register is None:
        reason = f"{release} takes no library of an execution provider; 1.23 and later do"
        raise LibraryRefusedError(reason, ep_name=ep_name, reason=reason)
    before = {ep_device.ep_name for ep_device in _listed_devices(onnxruntime)}
    try:
        register(name, path)
    except Exception as error:  # onnxruntime has an exception of its own for each status
        if "already registered" in str(error):
            return None
        reason = _why_refused(error, path)
        raise LibraryRefusedError(
            f"{release} refuses the library of {ep_name}: {quoted(reason)}",
            ep_name=ep_name,
            reason=f"{release} refuses it: {reason}",
        ) from error
    return {ep_device.ep_name for ep_device in _listed_devices(onnxruntime)} - before


def _why_refused(error: Exception, path: str) -> str:
    """Return the message of the library or the system's loader inside onnxruntime's error."""
    words = words_of(error).rstrip(".")
    return words.rpartition(" with error: ")[2].removeprefix(f"{path}: ") or words


def load_quietly(path: str) -> None:
    """Load a library without the lines that it prints; do nothing for one that prints none."""
    start = _TALKATIVE.get(Path(path).name)
    if start is None or path in _loaded or sys.platform != "linux":
        return
    with (
        _lock,
        _without_lines(start),
        contextlib.suppress(OSError),
    ):  # using the library raises the error
        ctypes.CDLL(path)
    _loaded.add(path)


@contextlib.contextmanager
def _without_lines(start: bytes) -> Iterator[None]:
    """Hold back native code's standard output, then write it without lines with that start."""
    sys.stdout.flush()
    libc = ctypes.CDLL(None)
    libc.fflush(None)
    before, caught = os.dup(1), os.memfd_create("ortpkg")
    try:
        os.dup2(caught, 1)
        try:
            yield
        finally:
            libc.fflush(None)
            os.dup2(before, 1)
        os.lseek(caught, 0, os.SEEK_SET)
        with os.fdopen(os.dup(caught), "rb") as file:
            for line in file:
                if not line.startswith(start):
                    os.write(1, line)
    finally:
        os.close(before)
        os.close(caught)


def registered_devices(onnxruntime: Any, path: str) -> list[Any]:
    """Return the EP devices of a library; none if it is not registered, or has no device."""
    names = _names_by_path.get(path, frozenset())
    return [
        ep_device
        for ep_device in _listed_devices(onnxruntime)
        if _is_same_file(ep_device.ep_metadata.get(_LIBRARY_PATH, ""), path)
        or (_LIBRARY_PATH not in ep_device.ep_metadata and ep_device.ep_name in names)
    ]


def _listed_devices(onnxruntime: Any) -> list[Any]:
    """Return all EP devices; none in releases before 1.22, which know no such thing."""
    return list(onnxruntime.get_ep_devices()) if hasattr(onnxruntime, "get_ep_devices") else []


def _is_same_file(one: str, other: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(one) and Path(one).samefile(other)
    return False
