"""Diagnosis of what keeps models from running well on this machine, with remedies.

The report is meant to be pasted into a bug report: it names no user, no host and no path of a home,
and of the environment only variables that change how models run.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ortpkg.api.doctor.doctor_checks import Complaint, Gravity, examine
from ortpkg.api.doctor.situation import Situation, gather
from ortpkg.foundations.quantities import nbytes_text
from ortpkg.machine.hardware import EpDevice, HardwareDevice
from ortpkg.machine.json_form import ep_device_to_json, known_facts_to_json

_HOMES = re.compile(
    r"(?P<start>(?:/home|/Users|[A-Za-z]:\\+Users)[/\\]+)[^/\\\s'\":]+", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """Result of a diagnosis.

    Attributes:
        situation: the gathered facts.
        complaints: the problems, errors first.
    """

    situation: Situation
    complaints: tuple[Complaint, ...]

    @property
    def has_errors(self) -> bool:
        """True if something that is installed or plugged in cannot be used."""
        return any(complaint.gravity is Gravity.ERROR for complaint in self.complaints)

    @property
    def has_warnings(self) -> bool:
        """True if something works, but not as well as it could."""
        return any(complaint.gravity is Gravity.WARNING for complaint in self.complaints)


def doctor(situation: Situation | None = None) -> DoctorReport:
    """Examine this machine (or a situation that was gathered before).

    Takes a few seconds while backends are asked. Every backend and every installed plug-in is
    loaded, each in a child process with a time limit.
    """
    looked_at = gather() if situation is None else situation
    return DoctorReport(situation=looked_at, complaints=examine(looked_at))


def report_to_json(report: DoctorReport) -> dict[str, Any]:
    """Return the report as a JSON object, without anything that names a user."""
    situation = report.situation
    cleaned: dict[str, Any] = _cleaned(
        {
            "complaints": [
                {
                    "check": complaint.check,
                    "gravity": complaint.gravity.value,
                    "message": complaint.message,
                    "remedy": complaint.remedy,
                }
                for complaint in report.complaints
            ],
            "platform": dict(situation.platform),
            "software": dict(situation.software),
            "hardware": [known_facts_to_json(device) for device in situation.machine.hardware],
            "notes": list(situation.machine.notes),
            "ep_devices": [ep_device_to_json(ep_device) for ep_device in situation.ep_devices],
            "plugins": list(situation.plugins),
            "device_files": [
                {"name": file.name, "is_usable": file.is_usable, "group": file.group}
                for file in situation.device_files
            ],
            "variables": dict(situation.variables),
        }
    )
    return cleaned


def report_lines(report: DoctorReport) -> list[str]:
    """Return the report as lines of text, without user names.

    The order is the same on every machine.
    """
    return [clean(line) for line in _lines(report)]


def report_to_markdown(report: DoctorReport) -> str:
    """Return the block to paste into a bug report."""
    # A fence longer than any in the text, which contains names from hardware.
    body = "\n".join(report_lines(report))
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"### ortpkg doctor\n\n{fence}text\n{body}\n{fence}\n"


def clean(text: str) -> str:
    """Return ``text`` without paths of homes and of the Python environment."""
    for path, name in ((sys.prefix, "<environment>"), (str(Path.home()), "~")):
        if len(path) > 1 and path not in {"/usr", "/usr/local", "/root"}:
            text = text.replace(path, name)
    for variable in ("USERNAME", "USER", "LOGNAME"):
        user = os.environ.get(variable, "")
        if len(user) > 2 and user != "root":
            text = re.sub(rf"(?<=[/\\]){re.escape(user)}(?=[/\\]|$)", "<user>", text)
    return _HOMES.sub(r"\g<start><user>", text)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: _cleaned(inner) for key, inner in value.items()}
    return [_cleaned(inner) for inner in value] if isinstance(value, list) else value


def _lines(report: DoctorReport) -> Iterator[str]:
    situation = report.situation
    yield from _section(
        "platform", [f"{name}: {text}" for name, text in situation.platform.items()]
    )
    yield from _section(
        "software", [f"{name} {version}" for name, version in situation.software.items()]
    )
    yield from _section(
        "hardware", [_hardware_line(device) for device in situation.machine.hardware]
    )
    yield from _section("notes", list(situation.machine.notes))
    yield from _section(
        "execution providers", [_ep_line(ep_device) for ep_device in situation.ep_devices]
    )
    yield from _section("plug-ins", list(situation.plugins))
    files = [
        f"{file.name} {'usable' if file.is_usable else 'not usable'}"
        for file in situation.device_files
    ]
    yield from _section("device files", files)
    variables = [
        f"{key}={'(set)' if value is None else value}" for key, value in situation.variables.items()
    ]
    yield from _section("environment", variables)
    yield "complaints"
    for complaint in report.complaints:
        yield f"  {complaint.gravity.value} [{complaint.check}] {complaint.message}"
        if complaint.remedy:
            yield f"    → {complaint.remedy}"
    if not report.complaints:
        yield "  none"


def _section(title: str, rows: list[str]) -> Iterator[str]:
    yield title
    yield from (f"  {row}" for row in rows or ["none"])


def _hardware_line(device: HardwareDevice) -> str:
    facts = [
        device.architecture or "",
        f"[{device.vendor_id:04x}:{device.device_id:04x}]" if device.vendor_id else "",
        "" if device.is_discrete is None else ("integrated", "discrete")[device.is_discrete],
        "" if device.memory_nbytes is None else nbytes_text(device.memory_nbytes),
        ""
        if device.free_memory_nbytes is None
        else f"({nbytes_text(device.free_memory_nbytes)} free)",
        *(device.metadata.get(key, "") for key in ("driver", "driver_version", "firmware_version")),
    ]
    return " ".join(
        [device.type.value, device.name or "unknown", *(fact for fact in facts if fact)]
    )


def _ep_line(ep_device: EpDevice) -> str:
    where = (
        "no devices reported"
        if ep_device.device is None
        else f"{ep_device.device.type} {ep_device.device.name}"
    )
    return f"{ep_device.ep_name} ({ep_device.backend} {ep_device.ep_version or 'unknown'}): {where}"
