"""Asks wheels, libraries and Windows for their plug-in EPs; runs in a child process.

Wheels for onnxruntime have functions for this that differ in spelling: ``get_library_path()`` or
``library_path()``, and ``get_ep_names()``, ``get_ep_name()`` or a constant ``EP_NAME``. A child
process calls them, since importing such a wheel may make links, load libraries, or fail.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from typing import Any

from ortpkg.foundations.errors import quoted
from ortpkg.runtime.providers.ep_discovery.ep_package import import_ep_package
from ortpkg.runtime.providers.ep_discovery.library_refusals import REFUSED
from ortpkg.runtime.providers.ep_discovery.registered_ep_library import (
    LibraryRefusedError,
    register_ep_library,
)
from ortpkg.runtime.providers.quiet_onnxruntime import load_onnxruntime

_PATHS = ("get_library_path", "library_path")
#: Names of all EPs first: a wheel that has them may have the name of one, too.
_NAMES = (
    *("get_ep_names", "ep_names", "EP_NAMES"),
    *("get_ep_name", "ep_name", "EP_NAME", "_EP_NAME"),
)


def describe_package(module: str, folder: str) -> dict[str, Any]:
    """Return ``{"path", "ep_names", "version"}`` of a wheel's package; empty if it states none.

    Raises:
        TypeError: the path is no text, or the names are no texts.
        Exception: anything that the package raises.
    """
    with contextlib.suppress(
        Exception
    ):  # without it no library can be used; the package may say so
        load_onnxruntime()
    package = import_ep_package(module, folder)
    version = getattr(package, "__version__", "")
    return {
        "path": _path_of(package),
        "ep_names": _names_of(package),
        "version": version if isinstance(version, str) else "",
    }


def describe_library(path: str, ep_name: str) -> dict[str, Any]:
    """Return ``{"ep_names", "version"}`` of a library, from the devices that it offers here.

    If onnxruntime or the loader refuses the library, return ``{"refused"}`` with the reason.

    Args:
        path: path of the library.
        ep_name: name to register it under; some EPs take this as their own name.
    """
    onnxruntime = load_onnxruntime()
    try:
        ep_devices = register_ep_library(onnxruntime, ep_name, path)
    except LibraryRefusedError as error:
        return {REFUSED: error.reason}
    versions = (str(ep_device.ep_metadata.get("version", "")) for ep_device in ep_devices)
    return {
        "ep_names": list(dict.fromkeys(str(ep_device.ep_name) for ep_device in ep_devices)),
        "version": next(filter(None, versions), ""),
    }


def _path_of(package: Any) -> str:
    name, path = _first_stated(package, _PATHS)
    if path is None:
        return ""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name} returned {quoted(type(path).__name__)}, not a path")
    return os.fspath(path) if isinstance(os.fspath(path), str) else os.fsdecode(path)


def _names_of(package: Any) -> list[str]:
    name, value = _first_stated(package, _NAMES)
    if value is None:
        return []
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, Iterable) or isinstance(names, bytes | Mapping):
        raise TypeError(f"{name} returned {quoted(type(value).__name__)}, not the names of EPs")
    names = list(names)
    if not all(isinstance(ep_name, str) for ep_name in names):
        raise TypeError(f"{name} returned {quoted(names)}, not the names of EPs")
    return names


def _first_stated(package: Any, names: Iterable[str]) -> tuple[str, Any]:
    """Return the first of ``names`` that the package has, with its value or, if called, result."""
    for name in names:
        value = getattr(package, name, None)
        if value is not None:
            return name, value() if callable(value) else value
    return "", None


def list_catalog(module: str, folder: str) -> list[dict[str, str]]:
    """Return ``[{"name", "version", "path", "state"}]`` of the EPs in Windows' catalog."""
    catalog_module = import_ep_package(module, folder)
    with catalog_module.EpCatalog() as catalog:
        return [
            {
                "name": str(provider.name),
                "version": str(provider.version),
                "path": str(provider.library_path),
                "state": str(provider.ready_state.name),
            }
            for provider in catalog.find_all_providers()
        ]
