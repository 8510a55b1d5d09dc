"""Asks OpenVINO for what it finds on this machine; runs in a child process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def list_devices() -> list[dict[str, Any]]:
    """Return OpenVINO's available devices in its order, as JSON objects.

    A property that a plug-in lacks is left out.
    """
    from ortpkg.runtime.providers.quiet_openvino import (
        openvino,  # this call is to fail if it cannot be loaded
    )

    core = openvino.Core()
    return [{"id": device, **_properties(core, device)} for device in core.available_devices]


def missing_operators(operators: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Return the operators for which OpenVINO has no conversion rule.

    It may crash over an operator that it has.
    """
    from ortpkg.runtime.providers.library_traits import LIBRARY_TRAITS
    from ortpkg.runtime.providers.operator_probe import one_node_model, pairs
    from ortpkg.runtime.providers.quiet_openvino import openvino  # as above

    core = openvino.Core()
    missing = []
    for operator in pairs(operators):
        try:
            core.read_model(one_node_model(*operator))
        except Exception as error:  # noqa: BLE001 - what it raises for a wrong model is not documented
            if operator in LIBRARY_TRAITS["openvino"].unknown_operators(str(error)):
                missing.append(operator)
    return missing


def runtime_requirements(device: str) -> str:
    """Return what a model compiled here for a device needs, in OpenVINO's words.

    "" for releases before 2026.
    """
    from ortpkg.runtime.providers.quiet_openvino import openvino, operations  # as above

    value = operations.parameter([1], openvino.Type.f32)
    model = openvino.Model([operations.relu(value)], [value], "probe")
    compiled = openvino.Core().compile_model(model, device)
    try:
        return str(compiled.get_property("RUNTIME_REQUIREMENTS"))
    except Exception:  # noqa: BLE001 - what it raises for a property that it does not know is not documented
        return ""


def _properties(core: Any, device: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    readers: dict[str, Callable[[Any], Any]] = {
        "FULL_DEVICE_NAME": str,
        "DEVICE_ARCHITECTURE": str,
        "DEVICE_TYPE": lambda value: str(value).rpartition(".")[2].lower(),
        "DEVICE_PCI_INFO": lambda info: (
            f"{info.domain:04x}:{info.bus:02x}:{info.device:02x}.{info.function:x}"
        ),
        "GPU_DEVICE_TOTAL_MEM_SIZE": int,
        "NPU_DRIVER_VERSION": str,
    }
    for name, read in readers.items():
        try:
            properties[name] = read(core.get_property(device, name))
        except Exception:  # noqa: BLE001, S112 - plug-ins differ in what they know and in what they raise
            continue
    return properties
