"""Machine profiles: files with a machine, the offers of EPs on it, and its software.

``ortpkg devices --export`` writes one, ``--profile`` reads one, so that a selection can be made for
another machine. The built-in profiles are constructed from public documentation, and say so; nobody
probed them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ortpkg.foundations.ep_names import is_known_ep, resolve_ep_name, suggest_ep_name
from ortpkg.foundations.errors import ProfileError, quoted
from ortpkg.foundations.names import did_you_mean, did_you_mean_path
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.json_form import known_facts_to_json
from ortpkg.machine.machine import Machine
from ortpkg.machine.profile_document import fail_at, read_profile_document

#: Names of the profiles in the distribution.
BUILT_IN_PROFILES: tuple[str, ...] = (
    "intel-core-ultra-laptop",
    "plain-server",
    "rtx-workstation",
    "snapdragon-x-laptop",
)
_SCHEMA_VERSION = "1.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineProfile:
    """A machine as a value, with the offers of execution providers on it.

    Attributes:
        name, description: texts for people.
        constructed: True if it was written from documentation, and nobody probed such a machine.
        machine: its hardware and operating system.
        ep_devices: offers of execution providers there; the device of each is one of
            ``machine.hardware``, or None.
        software: library → version there, e.g. {"onnxruntime": "1.31.1"}.
    """

    name: str
    machine: Machine
    description: str = ""
    constructed: bool = False
    ep_devices: tuple[EpDevice, ...] = ()
    software: Mapping[str, str] = field(default_factory=dict)


def read_profile(name_or_path: str | Path) -> MachineProfile:
    """Return the built-in profile with this name, or the one in this file.

    A path ("./plain-server") names a file that is called like a built-in profile.

    Raises:
        ProfileError: there is none, or it is not a profile; ``file`` and ``pointer`` say where, the
            message what would be right.
    """
    if isinstance(name_or_path, str) and name_or_path in BUILT_IN_PROFILES:
        path = Path(__file__).parent / "built_in_profiles" / f"{name_or_path}.json"
        return profile_from_json(read_profile_document(path), path)
    path = Path(name_or_path)
    if not _exists(path):
        names = ", ".join(BUILT_IN_PROFILES)
        raise ProfileError(
            "there is no machine profile"
            f" {quoted(name_or_path)}{did_you_mean(str(name_or_path), BUILT_IN_PROFILES)}: it is"
            f" neither a file nor one of {names}{did_you_mean_path(name_or_path)}",
            file=name_or_path,
        )
    return profile_from_json(read_profile_document(path), path)


def profile_from_json(document: Mapping[str, Any], file: Path | str) -> MachineProfile:
    """Return a profile from a document that keeps the schema.

    Raises:
        ProfileError: an EP device refers to a missing device.
    """
    hardware = tuple(_hardware_device(entry) for entry in document["machine"]["hardware"])
    notes = list(document["machine"].get("notes", ()))
    ep_devices = []
    for position, entry in enumerate(document.get("ep_devices", ())):
        pointer = f"/ep_devices/{position}"
        ep_devices.append(_ep_device(entry, hardware, file, pointer))
        notes += _ep_name_notes(entry["ep"], pointer)
    return MachineProfile(
        name=document["name"],
        description=document.get("description", ""),
        constructed=document.get("constructed", False),
        machine=Machine(
            os=document["machine"]["os"],
            os_version=document["machine"].get("os_version"),
            hardware=hardware,
            notes=tuple(dict.fromkeys(notes)),
        ),
        ep_devices=tuple(ep_devices),
        software=dict(document.get("software", {})),
    )


def profile_to_json(profile: MachineProfile) -> dict[str, Any]:
    """Return the document that :func:`read_profile` reads back as an equal profile."""
    machine = profile.machine
    return {
        "schema_version": _SCHEMA_VERSION,
        "kind": "machine_profile",
        "name": profile.name,
        "description": profile.description,
        "constructed": profile.constructed,
        "machine": {
            "os": machine.os,
            "os_version": machine.os_version,
            "hardware": [known_facts_to_json(device) for device in machine.hardware],
            "notes": list(machine.notes),
        },
        "ep_devices": [
            _ep_device_to_json(ep_device, machine.hardware) for ep_device in profile.ep_devices
        ],
        "software": {name: profile.software[name] for name in sorted(profile.software)},
    }


def make_profile(
    name: str,
    machine: Machine,
    ep_devices: Sequence[EpDevice],
    *,
    software: Mapping[str, str],
    description: str = "",
) -> MachineProfile:
    """Return a profile of a probed machine, completed with facts that backends know of its devices.

    A device that only a backend knows is added to the hardware, so that the device of every EP
    device is part of it.
    """
    hardware = list(machine.hardware)
    matched: list[EpDevice] = []
    for ep_device in ep_devices:
        if ep_device.device is None:
            matched.append(ep_device)
            continue
        position = next(
            (
                position
                for position, device in enumerate(hardware)
                if _is_same(device, ep_device.device)
            ),
            len(hardware),
        )
        if position == len(hardware):
            hardware.append(ep_device.device)
        else:
            hardware[position] = with_facts_of(hardware[position], ep_device.device)
        matched.append(replace(ep_device, device=hardware[position]))
    # A later backend may have added facts to a device that an earlier one reported.
    complete = [
        (
            ep_device
            if ep_device.device is None
            else replace(
                ep_device, device=next(h for h in hardware if _is_same(h, ep_device.device))
            )
        )
        for ep_device in matched
    ]
    return MachineProfile(
        name=name,
        description=description,
        machine=replace(machine, hardware=tuple(hardware)),
        ep_devices=tuple(complete),
        software=dict(software),
    )


def with_facts_of(device: HardwareDevice, reported: HardwareDevice) -> HardwareDevice:
    """Return ``device`` with the facts that it lacks.

    ``reported`` is the same device as a backend knows it.
    """
    names = ("is_discrete", "memory_nbytes", "free_memory_nbytes", "architecture")
    learned = {
        name: getattr(reported, name)
        for name in names
        if getattr(device, name) is None and getattr(reported, name) is not None
    }
    if not learned:
        return device
    sources = {**device.fact_sources, **{name: reported.source_of(name) for name in learned}}
    return replace(device, **learned, fact_sources=sources)


def _is_same(one: HardwareDevice, other: HardwareDevice) -> bool:
    """Return True if both are the same piece of hardware, with different facts known."""
    return _identity(one) == _identity(other)


def _identity(device: HardwareDevice) -> tuple[object, ...]:
    addresses = tuple(device.metadata.get(key) for key in ("pci_address", "platform_device"))
    return (device.type, device.name, device.vendor_id, device.device_id, addresses)


def _hardware_device(entry: Mapping[str, Any]) -> HardwareDevice:
    facts = dict(entry)
    for name in ("vendor_id", "device_id", "memory_nbytes", "free_memory_nbytes"):
        if facts.get(name) is not None:
            facts[name] = int(facts[name])  # JSON Schema accepts 1.0 as an integer
    return HardwareDevice(**{**facts, "type": DeviceType(facts["type"])})


def _ep_device(
    entry: Mapping[str, Any], hardware: Sequence[HardwareDevice], file: Path | str, pointer: str
) -> EpDevice:
    index = entry["device"]
    if index is not None and index >= len(hardware):
        fail_at(
            file,
            f"{pointer}/device",
            f"there is no device {int(index)} (must be a place in machine.hardware, 0 to"
            f" {len(hardware) - 1}, or null)",
        )
    return EpDevice(
        ep_name=resolve_ep_name(entry["ep"]),
        device=None if index is None else hardware[int(index)],
        ep_vendor=entry.get("ep_vendor", ""),
        ep_version=entry.get("ep_version", ""),
        backend=entry.get("backend", "onnxruntime"),
        ep_metadata=dict(entry.get("ep_metadata", {})),
        ep_options=dict(entry.get("ep_options", {})),
    )


def _ep_name_notes(ep_name: str, pointer: str) -> list[str]:
    """Return a note if a name resembles one of ONNX Runtime's without being one.

    It may still be a plug-in's name.
    """
    suggestion = None if is_known_ep(resolve_ep_name(ep_name)) else suggest_ep_name(ep_name)
    return (
        [f"{pointer}/ep: {quoted(ep_name)} (did you mean {quoted(suggestion)}?)"]
        if suggestion
        else []
    )


def _ep_device_to_json(ep_device: EpDevice, hardware: Sequence[HardwareDevice]) -> dict[str, Any]:
    return {
        "ep": ep_device.ep_name,
        "ep_vendor": ep_device.ep_vendor,
        "ep_version": ep_device.ep_version,
        "backend": ep_device.backend,
        "device": None if ep_device.device is None else hardware.index(ep_device.device),
        "ep_metadata": {key: ep_device.ep_metadata[key] for key in sorted(ep_device.ep_metadata)},
        "ep_options": {key: ep_device.ep_options[key] for key in sorted(ep_device.ep_options)},
    }


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
