"""Lists, adds and removes libraries of plug-in EPs for the command ``ortpkg ep``."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ortpkg.foundations.ep_names import is_named
from ortpkg.foundations.errors import ExecutionProviderError, UsageError, quoted
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.providers.ep_discovery.ep_libraries import (
    EpLibrary,
    displaced_note,
    ep_library_notes,
    forget_ep_libraries,
    installed_ep_libraries,
)
from ortpkg.runtime.providers.ep_discovery.named_ep_findings import named_findings
from ortpkg.runtime.providers.ep_discovery.named_ep_libraries import (
    NamedLibrary,
    added_file,
    added_libraries,
    verify_entry,
    write_added,
)
from ortpkg.runtime.providers.ep_library_factory import EpLibraryFactory
from ortpkg.runtime.providers.machine_offer import MachineOffer
from ortpkg.runtime.providers.onnxruntime_factory import installed_distributions

__all__ = [
    "AddedLibrary",
    "LibraryOffer",
    "add_library",
    "file_of_added_libraries",
    "libraries_to_add",
    "library_notes",
    "library_offers",
    "remove_library",
    "verify_added",
    "verify_entry",
]

_NO_ONNXRUNTIME = "no onnxruntime is installed, which plug-in EPs need: pip install onnxruntime"
_NO_NAME = "nothing says the name of its EP"


class LibraryOffer(NamedTuple):
    """Execution provider of a library with its devices here, or the reason why it has none."""

    library: EpLibrary
    devices: tuple[EpDevice, ...]
    reason: str = ""


class AddedLibrary(NamedTuple):
    """Library to add: its path, its version ("" if it states none), and its EPs."""

    path: str
    version: str
    ep_names: tuple[str, ...]


def library_offers(offer: MachineOffer) -> tuple[LibraryOffer, ...]:
    """Return the libraries on this machine, each with its devices in ``offer``."""
    if not installed_distributions():
        return ()
    return tuple(_library_offer(library, offer) for library in installed_ep_libraries())


def library_notes() -> tuple[str, ...]:
    """Return why wheels and named paths cannot be used, or that onnxruntime is missing."""
    return ep_library_notes() if installed_distributions() else (_NO_ONNXRUNTIME,)


def _library_offer(library: EpLibrary, offer: MachineOffer) -> LibraryOffer:
    factory = EpLibraryFactory(library)
    whose = (library.ep_name, factory.backend)
    serving = [
        factory_here
        for factory_here in offer.factories
        if (factory_here.ep_name, factory_here.backend) == whose
    ]
    if serving and not isinstance(serving[0], EpLibraryFactory):
        return LibraryOffer(library, (), displaced_note(library))
    devices = tuple(
        ep_device
        for ep_device in offer.ep_devices
        if (ep_device.ep_name, ep_device.backend) == whose
    )
    if devices:
        return LibraryOffer(library, devices)
    reasons = [
        *(refusal.reason for refusal in offer.reasons if refusal[:2] == whose),
        *(note for note in offer.notes if is_named(library.ep_name, note)),
        factory.nothing_offered_note,
    ]
    return LibraryOffer(library, (), reasons[0])


def libraries_to_add(path: str, ep_names: tuple[str, ...]) -> tuple[AddedLibrary, ...]:
    """Try a library, or a folder with some, in a child process; return the usable libraries.

    Args:
        path: absolute path.
        ep_names: names of the EPs; () if the libraries state them.

    Raises:
        UsageError: onnxruntime is not installed.
        ExecutionProviderError: a library cannot be used.
    """
    if not installed_distributions():
        raise UsageError(_NO_ONNXRUNTIME)
    findings = list(named_findings(NamedLibrary(path, ep_names)))
    for finding in findings:
        if finding.problem:
            hint = "; say it by --name EP" if finding.problem.endswith(_NO_NAME) else ""
            raise ExecutionProviderError(
                f"{quoted(finding.path)} is not added: {finding.problem}{hint}", ep_name=""
            )
    return tuple(
        AddedLibrary(finding.path, finding.version, finding.ep_names) for finding in findings
    )


def add_library(path: str, ep_names: tuple[str, ...]) -> None:
    """Add a path, which :func:`libraries_to_add` has tried, to the file of added libraries."""
    rest = [library for library in added_libraries() if library.path != path]
    write_added([*rest, NamedLibrary(path, ep_names)])
    forget_ep_libraries()


def verify_added(path: str) -> None:
    """Raise UsageError if ``path`` was not added."""
    paths = [library.path for library in added_libraries()]
    if path not in paths:
        listed = ", ".join(map(quoted, paths)) or "none is"
        raise UsageError(f"{quoted(path)} was not added by ortpkg ep add ({listed})")


def remove_library(path: str) -> None:
    """Remove a path from the file of added libraries; UsageError if it was not added."""
    verify_added(path)
    write_added([library for library in added_libraries() if library.path != path])
    forget_ep_libraries()


def file_of_added_libraries() -> Path:
    """Return the path of the file of added libraries, which may not exist yet."""
    return added_file()
