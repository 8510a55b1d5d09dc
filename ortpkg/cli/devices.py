"""``ortpkg devices``: shows the machine's devices, and what EPs offer on them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortpkg.api.devices import THIS_MACHINE, profile_of_this_machine, write_profile
from ortpkg.cli.output_files import OutputKind, OverwriteFileOption, verify_output
from ortpkg.cli.rendering import Output, nbytes_text
from ortpkg.cli.table_layout import Column
from ortpkg.foundations.ep_names import short_ep_names
from ortpkg.foundations.errors import ExitCode, UsageError
from ortpkg.machine.hardware import EpDevice, HardwareDevice
from ortpkg.machine.json_form import ep_device_to_json, known_facts_to_json
from ortpkg.machine.profiles import BUILT_IN_PROFILES, MachineProfile, profile_to_json, read_profile

_UNKNOWN = "unknown"


EpOption = Annotated[
    list[str] | None,
    typer.Option("--ep", metavar="EP", help="Ask this plug-in, too; may be repeated."),
]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile", metavar="NAME|FILE", help="Show a machine profile instead of this machine."
    ),
]
ExportOption = Annotated[
    str | None,
    typer.Option("--export", metavar="FILE", help="Write a machine profile; - is standard output."),
]
ListProfilesOption = Annotated[
    bool, typer.Option("--list-profiles", help="Name the built-in machine profiles.")
]
FactsOption = Annotated[
    bool, typer.Option("--facts", help="Every fact of every device, and who says so.")
]
RayOption = Annotated[
    bool,
    typer.Option(
        "--ray", help="Print the options that ray start takes, so that batches find its devices."
    ),
]


def command(
    output: Output,
    ep: EpOption = None,
    profile: ProfileOption = None,
    export: ExportOption = None,
    overwrite: OverwriteFileOption = False,
    list_profiles: ListProfilesOption = False,
    facts: FactsOption = False,
    ray: RayOption = False,
) -> int:
    """Show the machine's devices, and the execution providers that can use them."""
    if list_profiles:
        return _print_profiles(output)
    if profile is not None and ep:
        raise UsageError(
            "--ep asks this machine; a profile says itself what its execution providers offer"
        )
    if export not in (None, "-"):
        verify_output(Path(export), "--export", OutputKind.PROFILE, overwrite=overwrite)
    shown = (
        profile_of_this_machine(_profile_name(export), eps=ep or ())
        if profile is None
        else read_profile(profile)
    )
    if export is not None:
        return _export(shown, export, output)
    if ray:
        return _print_ray_options(shown, output)
    if output.is_json:
        output.json("devices", _to_json(shown))
        return ExitCode.DONE
    _print_machine(shown, output, show_facts=facts)
    return ExitCode.DONE


def _profile_name(export: str | None) -> str:
    return THIS_MACHINE if export in (None, "-") else Path(export).stem or THIS_MACHINE


def _print_ray_options(profile: MachineProfile, output: Output) -> int:
    from ortpkg.scale.ray.device_resources import (  # few ask for it
        device_resources,
        ray_start_options,
    )

    resources = device_resources(profile.ep_devices)
    if output.is_json:
        output.json("ray_resources", {"resources": resources})
    else:
        output.line(ray_start_options(resources))
    return ExitCode.DONE


def _export(profile: MachineProfile, target: str, output: Output) -> int:
    if target == "-":
        output.document(profile_to_json(profile))
        return ExitCode.DONE
    write_profile(profile, Path(target))
    output.note(
        f"wrote {target}: look through it before you give it away; ortpkg select PKG --profile"
        f" {target}"
    )
    return ExitCode.DONE


def _print_profiles(output: Output) -> int:
    profiles = [read_profile(name) for name in BUILT_IN_PROFILES]
    if output.is_json:
        entries = [
            {
                "name": profile.name,
                "description": profile.description,
                "constructed": profile.constructed,
            }
            for profile in profiles
        ]
        output.json("machine_profiles", {"profiles": entries})
        return ExitCode.DONE
    output.table(
        [Column("profile"), Column("description", wraps=24)],
        [(profile.name, profile.description) for profile in profiles],
    )
    return ExitCode.DONE


def _to_json(profile: MachineProfile) -> dict[str, object]:
    return {
        "profile": profile.name,
        "constructed": profile.constructed,
        "os": profile.machine.os,
        "os_version": profile.machine.os_version,
        "hardware": [known_facts_to_json(device) for device in profile.machine.hardware],
        "ep_devices": [ep_device_to_json(ep_device) for ep_device in profile.ep_devices],
        "software": dict(profile.software),
        "notes": list(profile.machine.notes),
    }


def _print_machine(profile: MachineProfile, output: Output, *, show_facts: bool) -> None:
    if profile.constructed:
        output.line(f"{profile.name} (constructed)", style="bold")
        output.line(profile.description, hang="")
        output.line()
    output.line(f"{profile.machine.os} {profile.machine.os_version or _UNKNOWN}")
    output.line()
    output.table(
        [
            Column("device"),
            Column("name"),
            Column("architecture", drops=4),
            Column("memory", is_numeric=True, drops=5),
            Column("free", is_numeric=True, drops=3),
            Column("driver", drops=2),
            Column("source", drops=1, wraps=10),
        ],
        [_hardware_row(device) for device in profile.machine.hardware],
        title="Hardware",
    )
    output.line()
    if show_facts:
        _print_facts(profile, output)
    output.table(
        [
            Column("execution provider", short=short_ep_names),
            Column("backend"),
            Column("version", drops=1),
            Column("device"),
            Column("name", drops=2),
        ],
        [_ep_device_row(ep_device) for ep_device in profile.ep_devices],
        title="Execution providers",
    )
    for note in profile.machine.notes:
        output.note(f"note: {note}")


def _print_facts(profile: MachineProfile, output: Output) -> None:
    for device in profile.machine.hardware:
        output.table(
            [Column("fact"), Column("value", wraps=24), Column("source", drops=1)],
            _fact_rows(device),
            title=device.name or device.type.value,
        )
        output.line()


def _hardware_row(device: HardwareDevice) -> tuple[str, ...]:
    kind = device.type.value
    if device.is_discrete is not None:
        kind += " (discrete)" if device.is_discrete else " (integrated)"
    driver = " ".join(
        device.metadata[key] for key in ("driver", "driver_version") if key in device.metadata
    )
    return (
        kind,
        device.name or _UNKNOWN,
        device.architecture or _UNKNOWN,
        _nbytes(device.memory_nbytes),
        _nbytes(device.free_memory_nbytes),
        driver or ("" if kind == "cpu" else _UNKNOWN),
        ", ".join(dict.fromkeys([device.source, *device.fact_sources.values()])),
    )


def _fact_rows(device: HardwareDevice) -> list[tuple[str, str, str]]:
    values: dict[str, str] = {
        "type": device.type.value,
        "name": device.name,
        "vendor": device.vendor,
        "vendor_id": f"0x{device.vendor_id:04x}" if device.vendor_id else "",
        "device_id": f"0x{device.device_id:04x}" if device.device_id else "",
        "is_discrete": "" if device.is_discrete is None else ("no", "yes")[device.is_discrete],
        "memory_nbytes": "" if device.memory_nbytes is None else str(device.memory_nbytes),
        "free_memory_nbytes": (
            "" if device.free_memory_nbytes is None else str(device.free_memory_nbytes)
        ),
        "architecture": device.architecture or "",
        **{f"metadata.{key}": device.metadata[key] for key in sorted(device.metadata)},
    }
    return [
        (fact, value or _UNKNOWN, device.source_of(fact) if value else "")
        for fact, value in values.items()
    ]


def _ep_device_row(ep_device: EpDevice) -> tuple[str, ...]:
    device = ep_device.device
    kind, name = (device.type.value, device.name) if device is not None else ("not reported", "")
    return ep_device.ep_name, ep_device.backend, ep_device.ep_version or _UNKNOWN, kind, name


def _nbytes(nbytes: int | None) -> str:
    return _UNKNOWN if nbytes is None else nbytes_text(nbytes)
