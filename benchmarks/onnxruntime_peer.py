"""onnxruntime's own way to open a package and select a variant, by its C functions.

Imports nothing of ortpkg.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from tests.interop.onnxruntime_abi import PACKAGE_PROTOTYPES, ApiSlot, PackageSlot
from tests.interop.onnxruntime_c_api import OnnxRuntime, function_in_table, path_argument
from tests.interop.protocol import Eps

COMPONENT = "model"


class OnnxRuntimePeer:
    """onnxruntime's model package functions, for releases with a table of them (1.31 on)."""

    def __init__(self, library: Path) -> None:
        self.runtime = OnnxRuntime(library)
        table = self.runtime.call(ApiSlot.GET_MODEL_PACKAGE_API)
        assert table, f"onnxruntime {self.runtime.version} has no model package functions"
        self._functions = {
            slot: function_in_table(table, slot, PACKAGE_PROTOTYPES[slot]) for slot in PackageSlot
        }
        with self.runtime.session_options(
            Eps(devices_of=("CPUExecutionProvider",))
        ) as session_options:
            create = PackageSlot.CREATE_OPTIONS_FROM_SESSION_OPTIONS
            self._options = self._create(create, self.runtime.env, session_options)

    def open_and_select(self, root: Path, component: str = COMPONENT) -> str:
        """The name of the variant that onnxruntime selects for the CPU."""
        context = self._create(PackageSlot.CREATE_CONTEXT, path_argument(root))
        try:
            selected = self._create(
                PackageSlot.SELECT_COMPONENT, context, component.encode(), self._options
            )
            try:
                name = ctypes.c_char_p()
                call = self._functions[PackageSlot.GET_SELECTED_VARIANT_NAME]
                self.runtime.check(call(selected, ctypes.byref(name)))
                return (name.value or b"").decode()
            finally:
                self._functions[PackageSlot.RELEASE_COMPONENT_CONTEXT](selected)
        finally:
            self._functions[PackageSlot.RELEASE_CONTEXT](context)

    def _create(self, slot: PackageSlot, *arguments: object) -> int:
        handle = ctypes.c_void_p()
        self.runtime.check(self._functions[slot](*arguments, ctypes.byref(handle)))
        assert handle.value, f"{slot.name} gave no handle"
        return handle.value
