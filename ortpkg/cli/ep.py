"""Command ``ortpkg ep``: lists libraries of plug-in EPs, and adds or removes one by its path."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from ortpkg.api.doctor.missing_eps import MissingEp, missing_eps
from ortpkg.cli.parameters import DryRunOption, one_of
from ortpkg.cli.rendering import Output
from ortpkg.cli.table_layout import Column
from ortpkg.foundations.ep_names import resolve_ep_name, short_ep_names
from ortpkg.foundations.errors import ExitCode, UsageError
from ortpkg.foundations.isolation.backend_probe import doubting_refusals
from ortpkg.foundations.storage.planned_files import PlannedFiles, RehearsalEnd
from ortpkg.machine.hardware import hardware_label
from ortpkg.machine.json_form import hardware_device_to_json
from ortpkg.machine.machine_probe import probe
from ortpkg.runtime.providers.machine_offer import discover_ep_devices
from ortpkg.runtime.providers.user_ep_libraries import (
    LibraryOffer,
    add_library,
    file_of_added_libraries,
    libraries_to_add,
    library_notes,
    library_offers,
    remove_library,
    verify_added,
)


class Action(StrEnum):
    """Action of the command."""

    LIST = "list"
    ADD = "add"
    REMOVE = "remove"


ActionArgument = Annotated[
    Action,
    typer.Argument(
        **one_of(Action), help="list shows what is here, add and remove name a library of yours."
    ),
]
PathArgument = Annotated[
    str | None,
    typer.Argument(metavar="PATH", help="For add and remove: a library, or a folder with some."),
]
NameOption = Annotated[
    list[str] | None,
    typer.Option(
        "--name", metavar="EP", help="For add: the EP in it, if it does not say so. Repeatable."
    ),
]


def command(
    output: Output,
    action: ActionArgument = Action.LIST,
    path: PathArgument = None,
    name: NameOption = None,
    dry_run: DryRunOption = False,
) -> int:
    """List plug-in EPs, what they offer here and what is missing; add a library by its path.

    Wheels need not be added: what is installed is found. A library that you add is native code
    that runs in your processes: add what you trust.
    """
    if action is Action.LIST:
        if path is not None or name or dry_run:
            raise UsageError("ep list takes no PATH, --name or --dry-run")
        return _list(output)
    if path is None or not path.strip():
        raise UsageError(f"ep {action} takes the PATH of a library or a folder")
    full = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 - texts of a user
    if action is Action.ADD:
        return _add(full, tuple(map(resolve_ep_name, name or ())), dry_run, output)
    if name:
        raise UsageError("ep remove takes no --name")
    return _remove(full, dry_run, output)


def _list(output: Output) -> int:
    with doubting_refusals():
        offer = discover_ep_devices(probe())
    rows = library_offers(offer)
    missing = tuple(missing_eps(offer.hardware, offer.ep_devices))
    notes = library_notes()
    if output.is_json:
        output.json(
            "ep_libraries",
            {
                "libraries": [_row_to_json(row) for row in rows],
                "missing": [_missing_to_json(missing_ep) for missing_ep in missing],
                "notes": list(notes),
            },
        )
        return ExitCode.DONE
    _print(rows, missing, notes, output)
    return ExitCode.DONE


def _row_to_json(row: LibraryOffer) -> dict[str, Any]:
    library = row.library
    return {
        "ep": library.ep_name,
        "distribution": library.distribution or None,
        "version": library.version or None,
        "library": library.path,
        "origin": library.origin.value,
        "devices": [
            None if ep_device.device is None else hardware_device_to_json(ep_device.device)
            for ep_device in row.devices
        ],
        "reason": row.reason or None,
    }


def _missing_to_json(missing: MissingEp) -> dict[str, Any]:
    return {"device": hardware_device_to_json(missing.device), "remedy": missing.remedy}


def _print(
    rows: Sequence[LibraryOffer], missing: Iterable[MissingEp], notes: Iterable[str], output: Output
) -> None:
    if rows:
        columns = [
            Column("execution provider", short=short_ep_names),
            Column("from", wraps=16),
            Column("version"),
            Column("devices", wraps=20),
            Column("library", drops=1, wraps=30),
        ]
        output.table(columns, [_cells(row) for row in rows])
    else:
        output.line("no library of a plug-in EP is here")
    for reason in dict.fromkeys(row.reason for row in rows if row.reason):
        output.line(reason, hang="  ")
    for missing_ep in missing:
        kind = f"{missing_ep.device.vendor} {missing_ep.device.type.upper()}".strip()
        output.line(
            f"{_article(kind)} {kind} is here and no EP that can use it: {missing_ep.remedy}",
            hang="  ",
        )
    for note in notes:
        output.note(f"note: {note}")


def _article(words: str) -> str:
    """Return the article before ``words``; "NVIDIA" and "NPU" begin with a vowel's sound.

    >>> _article("NVIDIA GPU"), _article("Qualcomm NPU"), _article("Intel GPU")
    ('an', 'a', 'an')
    """
    return "an" if words[:1].lower() in "aeiou" or words.startswith(("NVIDIA", "NPU")) else "a"


def _cells(row: LibraryOffer) -> tuple[str, ...]:
    labels = [
        "not reported" if ep_device.device is None else hardware_label(ep_device.device)
        for ep_device in row.devices
    ]
    library = row.library
    return (
        library.ep_name,
        library.distribution or "named by you",
        library.version or "unknown",
        ", ".join(labels) or "none",
        library.path,
    )


def _add(path: str, ep_names: tuple[str, ...], dry_run: bool, output: Output) -> int:
    libraries = libraries_to_add(path, ep_names)
    if dry_run:
        raise RehearsalEnd(_planned())
    add_library(path, ep_names)
    if output.is_json:
        added = [
            {
                "library": library.path,
                "version": library.version or None,
                "eps": list(library.ep_names),
            }
            for library in libraries
        ]
        kept_in = str(file_of_added_libraries())
        output.json("ep_libraries", {"added": added, "kept_in": kept_in})
        return ExitCode.DONE
    for library in libraries:
        output.line(f"added {', '.join(library.ep_names)} of {library.path}")
    output.note("ortpkg ep list shows the devices that it offers")
    return ExitCode.DONE


def _remove(path: str, dry_run: bool, output: Output) -> int:
    verify_added(path)
    if dry_run:
        raise RehearsalEnd(_planned())
    remove_library(path)
    if output.is_json:
        output.json("ep_libraries", {"removed": path})
    else:
        output.line(f"removed {path}; nothing is deleted")
    return ExitCode.DONE


def _planned() -> PlannedFiles:
    file = file_of_added_libraries()
    if file.exists():
        return PlannedFiles(root=file.parent, changes=(file.name,))
    return PlannedFiles(root=file.parent, adds={file.name: None})
