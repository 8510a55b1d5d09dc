"""Model packages by onnxruntime's C functions: a class for each way in, one interface.

1.26 and 1.27 take a package directory where a model path is expected; 1.28 to 1.30 have functions
that are looked up by name; 1.31 has a table of them.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from tests.interop.onnxruntime_abi import (
    PACKAGE_PROTOTYPES,
    ApiSlot,
    PackageSlot,
    experimental_name,
)
from tests.interop.onnxruntime_c_api import (
    OnnxRuntime,
    Session,
    function_at,
    function_in_table,
    path_argument,
)
from tests.interop.protocol import Eps


class OpenedPackage(Protocol):
    """A package that a release has opened.

    Every method raises ``OrtStatusError`` for what the release refuses.
    """

    def schema_version(self) -> int | None:
        """The major version; None where the release cannot say."""

    def components(self) -> dict[str, dict[str, str | None]]:
        """Component → variant → its EP, in the release's order.

        Empty where the release cannot say.
        """

    def resolve(self, reference: str, *, base: Path | None, must_exist: bool) -> str:
        """The path that a reference stands for."""

    def select(self, component: str, eps: Eps) -> tuple[str, str] | None:
        """The variant's name and directory ("" if it has none).

        None where only the session shows what was selected.
        """

    def create_session(self, own_options: Mapping[str, str] | None) -> Session:
        """A session over the selected variant, with the caller's options unless None."""


class DirectoryPackage:
    """1.26 and 1.27: opening, selecting and making a session are one call on a directory."""

    def __init__(self, runtime: OnnxRuntime, root: Path) -> None:
        self._runtime = runtime
        self._root = root
        self._eps = Eps()

    def schema_version(self) -> int | None:
        return None

    def components(self) -> dict[str, dict[str, str | None]]:
        return {}

    def resolve(self, reference: str, *, base: Path | None, must_exist: bool) -> str:
        raise NotImplementedError("1.26 and 1.27 resolve no references")

    def select(self, component: str, eps: Eps) -> tuple[str, str] | None:
        self._eps = eps
        return None

    def create_session(self, own_options: Mapping[str, str] | None) -> Session:
        with self._runtime.session_options(self._eps, own_options) as options:
            return self._runtime.create_session(self._root, options)


class PackageContext:
    """1.28 and later: ``OrtModelPackageApi``, by name or as a table."""

    def __init__(self, runtime: OnnxRuntime, root: Path, cleanup: ExitStack) -> None:
        self._runtime = runtime
        self._cleanup = cleanup
        self._functions = _package_functions(runtime)
        self._eps = Eps()
        self._selected: int | None = None
        self._context = self._create(PackageSlot.CREATE_CONTEXT, path_argument(root))
        cleanup.callback(self._call, PackageSlot.RELEASE_CONTEXT, self._context)

    def _call(self, slot: PackageSlot, *arguments: Any) -> Any:
        return self._functions(slot)(*arguments)

    def _create(self, slot: PackageSlot, *arguments: Any) -> int:
        handle = ctypes.c_void_p()
        self._runtime.check(self._call(slot, *arguments, ctypes.byref(handle)))
        assert handle.value, f"{slot.name} gave no handle"
        return handle.value

    def _names(self, slot: PackageSlot, *arguments: Any) -> list[bytes]:
        array, count = ctypes.c_void_p(), ctypes.c_size_t()
        status = self._call(
            slot, self._context, *arguments, ctypes.byref(array), ctypes.byref(count)
        )
        self._runtime.check(status)
        if array.value is None:
            return []
        return [text or b"" for text in (ctypes.c_char_p * count.value).from_address(array.value)]

    def schema_version(self) -> int | None:
        version = ctypes.c_int64()
        self._runtime.check(
            self._call(PackageSlot.GET_SCHEMA_VERSION, self._context, ctypes.byref(version))
        )
        return version.value

    def components(self) -> dict[str, dict[str, str | None]]:
        return {
            component.decode(): {
                variant.decode(): self._ep_name(component, variant)
                for variant in self._names(PackageSlot.GET_VARIANT_NAMES, component)
            }
            for component in self._names(PackageSlot.GET_COMPONENT_NAMES)
        }

    def _ep_name(self, component: bytes, variant: bytes) -> str | None:
        name = ctypes.c_char_p()
        call = self._call(
            PackageSlot.GET_VARIANT_EP_NAME, self._context, component, variant, ctypes.byref(name)
        )
        self._runtime.check(call)
        return None if name.value is None else name.value.decode()

    def resolve(self, reference: str, *, base: Path | None, must_exist: bool) -> str:
        resolved = ctypes.c_char_p()
        base_text = None if base is None else os.fsencode(base)
        call = PackageSlot.RESOLVE_STRING_REF
        arguments = (
            self._context,
            base_text,
            reference.encode(),
            int(must_exist),
            ctypes.byref(resolved),
        )
        self._runtime.check(self._call(call, *arguments))
        return (resolved.value or b"").decode()

    def select(self, component: str, eps: Eps) -> tuple[str, str] | None:
        self._eps = eps
        with self._runtime.session_options(eps) as session_options:
            create = PackageSlot.CREATE_OPTIONS_FROM_SESSION_OPTIONS
            options = self._create(create, self._runtime.env, session_options)
        self._cleanup.callback(self._call, PackageSlot.RELEASE_OPTIONS, options)
        self._selected = self._create(
            PackageSlot.SELECT_COMPONENT, self._context, component.encode(), options
        )
        self._cleanup.callback(self._call, PackageSlot.RELEASE_COMPONENT_CONTEXT, self._selected)
        name = ctypes.c_char_p()
        self._runtime.check(
            self._call(PackageSlot.GET_SELECTED_VARIANT_NAME, self._selected, ctypes.byref(name))
        )
        folder = PACKAGE_PROTOTYPES[PackageSlot.GET_SELECTED_VARIANT_FOLDER_PATH][1][1]._type_()
        call = PackageSlot.GET_SELECTED_VARIANT_FOLDER_PATH
        self._runtime.check(self._call(call, self._selected, ctypes.byref(folder)))
        return (name.value or b"").decode(), os.fsdecode(folder.value or "")

    def create_session(self, own_options: Mapping[str, str] | None) -> Session:
        if own_options is None:
            return self._session_with(None)
        with self._runtime.session_options(self._eps, own_options) as options:
            return self._session_with(options)

    def _session_with(self, options: int | None) -> Session:
        handle = self._create(
            PackageSlot.CREATE_SESSION, self._runtime.env, self._selected, options
        )
        return Session(self._runtime, handle)


@contextmanager
def open_package(runtime: OnnxRuntime, root: Path) -> Iterator[OpenedPackage]:
    """Opens the package at ``root`` the way this release does."""
    if _minor(runtime) < 28:
        yield DirectoryPackage(runtime, root)
        return
    with ExitStack() as cleanup:
        yield PackageContext(runtime, root, cleanup)


def _package_functions(runtime: OnnxRuntime) -> Callable[[PackageSlot], Callable[..., Any]]:
    if _minor(runtime) >= 31:
        table = runtime.call(ApiSlot.GET_MODEL_PACKAGE_API)
        return lambda slot: function_in_table(table, slot, PACKAGE_PROTOTYPES[slot])

    def by_name(slot: PackageSlot) -> Callable[..., Any]:
        address = runtime.call(ApiSlot.GET_EXPERIMENTAL_FUNCTION, experimental_name(slot).encode())
        return function_at(address, PACKAGE_PROTOTYPES[slot])

    return by_name


def _minor(runtime: OnnxRuntime) -> int:
    return int(runtime.version.split(".")[1])
