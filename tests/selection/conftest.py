"""Constructed machines and variants for the tests of selection.

Nothing here was measured on real hardware.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

from ortpkg.foundations.documents.frozen import FrozenMapping
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.package.package_info import ComponentInfo, Constraints, VariantInfo
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.matching.measurements import (
    Measurement,
    QuarantineCause,
    QuarantineEntry,
    SelectionRecords,
    device_key,
)
from ortpkg.selection.matching.request import make_request
from ortpkg.selection.matching.selector import select_ep_devices
from ortpkg.selection.matching.verdict import Selection
from ortpkg.selection.matching.wishes import SelectionWishes

_HERE = Path(__file__).parent
_ROOT = Path("package").absolute()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstructedMachine:
    hardware: tuple[HardwareDevice, ...]
    ep_devices: tuple[EpDevice, ...]


def _machine(entry: dict[str, Any]) -> ConstructedMachine:
    hardware = tuple(
        HardwareDevice(**{**facts, "type": DeviceType(facts["type"])})
        for facts in entry["hardware"]
    )
    ep_devices = tuple(
        EpDevice(
            ep_name=offer["ep"],
            backend=offer["backend"],
            ep_version=offer.get("ep_version", ""),
            device=None if offer["device"] is None else hardware[offer["device"]],
        )
        for offer in entry["ep_devices"]
    )
    return ConstructedMachine(hardware=hardware, ep_devices=ep_devices)


def _variant(name: str, facts: dict[str, Any]) -> VariantInfo:
    return VariantInfo(
        name=name,
        component_name="model",
        directory=_ROOT,
        model_path=_ROOT / "model.onnx",
        constraints=Constraints(
            ep=facts.get("ep"),
            device=facts.get("device"),
            architecture=facts.get("architecture"),
            ep_compatibility_info=facts.get("compat"),
        ),
        provider_options=facts.get("options", {}),
        metadata=FrozenMapping(facts.get("metadata", {})),
    )


def rate(_ep_device: EpDevice, info: str) -> CompiledModelCompatibility:
    """The EP of the tests: a compatibility string is the rating that it gets."""
    if info == "raises":
        raise RuntimeError("the EP's library is out of order")
    return CompiledModelCompatibility(info)


def make_records(facts: dict[str, Any], machine: ConstructedMachine) -> SelectionRecords:
    """The records of records.json as values, for the devices of ``machine``."""
    return SelectionRecords(
        measurements=tuple(
            Measurement(
                component_name="model",
                variant_name=each["variant"],
                ep_name=each["ep"],
                backend=each["backend"],
                device=_key(each, machine),
                p50_s=each["p50_ms"] / 1e3,
                p95_s=each["p95_ms"] / 1e3,
                throughput_per_s=1e3 / each["p50_ms"],
                cold_start_s=0.1,
                first_run_s=0.01,
                peak_memory_nbytes=each.get("memory_nbytes"),
                max_abs_error=each.get("error"),
                is_accurate=each.get("accurate"),
            )
            for each in facts.get("measurements", [])
        ),
        quarantined=tuple(
            QuarantineEntry(
                component_name="model",
                variant_name=each["variant"],
                ep_name=each["ep"],
                backend=each["backend"],
                device=_key(each, machine),
                ep_version=each["ep_version"],
                driver_version="",
                cause=QuarantineCause(each["cause"]),
                detail="exit code -11",
                recorded_at="2026-11-20T10:00:00+00:00",
            )
            for each in facts.get("quarantined", [])
        ),
        stale_reason=facts.get("stale", ""),
    )


def _key(record: dict[str, Any], machine: ConstructedMachine) -> str:
    """The device's key; that of no device where the machine has none such."""
    for each in machine.ep_devices:
        is_same = (each.ep_name, each.backend) == (record["ep"], record["backend"])
        if is_same and each.device is not None and each.device.type.value == record["device"]:
            return device_key(each, machine.ep_devices)
    return "absent"


@pytest.fixture(scope="session")
def machines() -> dict[str, ConstructedMachine]:
    entries = json.loads((_HERE / "machines.json").read_text(encoding="utf-8"))
    return {name: _machine(entry) for name, entry in entries.items() if name != "about"}


@pytest.fixture(scope="session")
def variants() -> dict[str, VariantInfo]:
    entries = json.loads((_HERE / "variants.json").read_text(encoding="utf-8"))
    return {name: _variant(name, facts) for name, facts in entries.items() if name != "about"}


Select = Callable[..., Selection]


def facts_of(wishes: dict[str, Any]) -> dict[str, Any]:
    """What among ``wishes`` is no wish but a fact of the machine; it is taken out of them."""
    facts = wishes.keys() - {each.name for each in fields(SelectionWishes)}
    return {name: wishes.pop(name) for name in facts}


@pytest.fixture(scope="session")
def select() -> Select:
    """The fixture ``select(machine, variants, **wishes)``: a selection on a made-up machine."""

    def call(
        machine: ConstructedMachine, chosen: Sequence[VariantInfo], **wishes: Any
    ) -> Selection:
        component = ComponentInfo(name="model", directory=_ROOT, variants=tuple(chosen))
        facts: dict[str, Any] = {"compatibility": rate, "hardware": machine.hardware} | facts_of(
            wishes
        )
        request = make_request(component, machine.ep_devices, SelectionWishes(**wishes), **facts)
        return select_ep_devices(component, request)

    return call


@pytest.fixture(scope="session")
def make_variant() -> Callable[..., VariantInfo]:
    """The call make_variant(name, ep=, device=, architecture=, compat=, options=)."""

    def call(name: str, **facts: Any) -> VariantInfo:
        return _variant(name, facts)

    return call
