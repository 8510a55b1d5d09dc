"""Checks that the libraries of named execution providers and backends are installed."""

from __future__ import annotations

from collections.abc import Iterable

from ortpkg.foundations.ep_names import LLVM_EP, OPENVINO_EP, resolve_ep_name
from ortpkg.foundations.errors import MissingExtraError, missing_library_text, quoted
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.providers.ep_registry import find_factory
from ortpkg.runtime.providers.installed_distribution import find_distributions
from ortpkg.runtime.providers.llvm.llvm_compiler import has_compiler

#: Backend → its library's name in messages.
LIBRARY_OF_BACKEND = {"openvino": "OpenVINO", "onnxruntime": "onnxruntime"}
_BACKEND_OF_EP = {OPENVINO_EP: "openvino"}


def verify_installed(
    eps: Iterable[str], backend: str | None, ep_devices: Iterable[EpDevice]
) -> None:
    """Raise MissingExtraError if a named EP or backend is absent because its library is missing.

    Args:
        eps: the EPs that a caller names.
        backend: the backend that a caller names; None or "auto" for any.
        ep_devices: everything that this machine offers.
    """
    offered = list(ep_devices)
    if backend in LIBRARY_OF_BACKEND and all(device.backend != backend for device in offered):
        verify_library(f"backend {backend}", backend)
    for ep in map(resolve_ep_name, eps):
        if ep in _BACKEND_OF_EP and all(device.ep_name != ep for device in offered):
            verify_library(ep, _BACKEND_OF_EP[ep])


def verify_library(purpose: str, backend: str) -> None:
    """Raise MissingExtraError if a backend's library is not installed."""
    if not find_distributions(backend, ()):
        raise MissingExtraError(purpose, LIBRARY_OF_BACKEND[backend])


def absent_library_text(ep_name: str, backend: str) -> str:
    """Return why an EP of a backend that is not installed cannot be used."""
    library = LIBRARY_OF_BACKEND.get(backend)
    if library is None:
        return f"{ep_name} is not available here: its library ({quoted(backend)}) is not installed"
    return missing_library_text(ep_name, library)


def verify_compiles(ep: str, backend: str | None) -> None:
    """Raise MissingExtraError if the library that compiles for a named EP is not installed."""
    name = resolve_ep_name(ep)
    if name == LLVM_EP and not has_compiler():
        raise MissingExtraError(f"compiling for {name}", "llvmlite")
    own_backend = _BACKEND_OF_EP.get(name)
    if own_backend is not None and backend in {None, own_backend}:
        factory = find_factory(name, backend=backend)
        if not factory.is_available():
            verify_library(name, own_backend)
