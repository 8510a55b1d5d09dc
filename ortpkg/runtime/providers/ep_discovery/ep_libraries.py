"""Lists the libraries of plug-in EPs: from wheels, from the user, and from Windows.

Wheels such as ``onnxruntime-ep-webgpu`` or ``onnxruntime-qnn`` bring a native library for
``register_execution_provider_library`` (``ep_wheels`` finds them). This process
imports nothing of them before a session uses them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ortpkg.foundations.ep_names import QNN_EP, resolve_ep_name
from ortpkg.foundations.errors import quoted
from ortpkg.foundations.host.directories import config_directory
from ortpkg.machine.hardware import DeviceType
from ortpkg.runtime.providers.ep_discovery.candidate_distributions import (
    EP_LIBRARIES_VARIABLE,
    EpOrigin,
    ep_candidates,
    file_identity,
)
from ortpkg.runtime.providers.ep_discovery.ep_candidate import EpPackage

if TYPE_CHECKING:
    from ortpkg.runtime.providers.ep_discovery.ep_finding import EpFinding

#: Names of execution providers, separated by commas, whose emulated devices are offered.
EMULATED_DEVICES_VARIABLE = "ORTPKG_EMULATED_DEVICES"
#: End of the note of a library that works and has no device here.
NO_DEVICE = "offers no device on this machine"


class Emulation(NamedTuple):
    """Emulation of a device that the machine does not have, by an execution provider.

    Attributes:
        type: kind of the emulated device.
        name: its name for people.
        architecture: its architecture in the vendor's words.
        library: file that emulates it, beside the execution provider's library.
        options: provider options that choose it.
    """

    type: DeviceType
    name: str
    architecture: str
    library: str
    options: tuple[tuple[str, str], ...]


#: Emulated devices, on Linux on x86-64 alone. Qualcomm's SDK prepares and runs there what its HTP
#: would, on the CPU, for development.
_EMULATIONS: Mapping[str, Emulation] = {
    QNN_EP: Emulation(
        type=DeviceType.NPU,
        name="Hexagon HTP, emulated on the CPU",
        architecture="hexagon",
        library="libQnnHtp.so",
        options=(("backend_type", "htp"),),
    )
}


class EpLibrary(NamedTuple):
    """The library of one execution provider for onnxruntime.

    Attributes:
        ep_name: the execution provider; the library is registered under this name.
        distribution, version: name and version of the wheel; "" for a library from the user.
        path: path of the library.
        origin: source of the library.
        package: package to import before the library is registered; None for none.
        siblings: names of other execution providers in the same library.
    """

    ep_name: str
    distribution: str
    version: str
    path: str
    origin: EpOrigin = EpOrigin.WHEEL
    package: EpPackage | None = None
    siblings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.distribution or Path(self.path).name} {self.version}".strip()

    @property
    def with_all_eps(self) -> str:
        """Text with all its execution providers and its wheel, the same for each of its EPs."""
        return f"{', '.join(sorted({self.ep_name, *self.siblings}))} ({self})"

    @property
    def emulation(self) -> Emulation | None:
        """Device that it emulates on a machine like this one; None if it emulates none."""
        emulation = _EMULATIONS.get(self.ep_name)
        if emulation is None or not _can_emulate() or not self.file_beside(emulation.library):
            return None
        return emulation

    def file_beside(self, name: str) -> str:
        """Return the path of a file in the library's folder; "" if it has none of that name."""
        path = Path(self.path).with_name(name)
        return str(path) if path.is_file() else ""

    def fingerprint(self) -> dict[str, object]:
        """Return JSON that changes when the library is updated or its file is replaced."""
        return {"library": [str(self), self.path, *file_identity(self.path)]}

    @property
    def build(self) -> str:
        """Name of exactly this build, for what is compiled with it and fits no other build."""
        if self.version:
            return str(self)
        identity = ".".join(f"{number:x}" for number in file_identity(self.path))
        return f"{self} {identity}"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of probes in child processes that name this library; JSON."""
        return {
            "ep_name": self.ep_name,
            "path": self.path,
            "package": None if self.package is None else list(self.package),
            "siblings": list(self.siblings),
        }


class EpLibraries(NamedTuple):
    """Libraries that can be used, and a note for each wheel or path that cannot.

    Attributes:
        libraries: one for each EP.
        notes: why others are not used.
        displaced: note on a library with the same EP as another → what to do.
    """

    libraries: tuple[EpLibrary, ...]
    notes: tuple[str, ...]
    displaced: Mapping[str, str]


def installed_ep_libraries() -> tuple[EpLibrary, ...]:
    """Return the libraries that can be used, one for each EP, in the order of their sources."""
    return find_ep_libraries().libraries


def ep_library_notes() -> tuple[str, ...]:
    """Return a sentence for each wheel, and each path from the user, that cannot be used."""
    return find_ep_libraries().notes


@cache
def find_ep_libraries() -> EpLibraries:
    """Find the libraries of all sources; child processes or remembered answers describe them."""
    findings, notes = _named()
    if ep_candidates():
        from ortpkg.runtime.providers.ep_discovery.ep_wheels import (
            wheel_findings,  # few have such a wheel
        )

        findings += wheel_findings()
    if sys.platform == "win32":
        from ortpkg.runtime.providers.ep_discovery.ep_catalog import (  # Windows has one
            catalog_findings,
            has_catalog,
        )

        findings += catalog_findings() if has_catalog() else []
    merged = _merged(findings)
    return merged._replace(notes=(*notes, *merged.notes))


def _named() -> tuple[list[EpFinding], tuple[str, ...]]:
    """Return the findings for libraries that the user names, and notes on unreadable sources."""
    if not may_name_libraries():
        return [], ()
    from ortpkg.runtime.providers.ep_discovery.named_ep_findings import (
        named_findings,  # few name one
    )
    from ortpkg.runtime.providers.ep_discovery.named_ep_libraries import named_libraries

    named = named_libraries()
    findings = [finding for library in named.libraries for finding in named_findings(library)]
    return findings, named.notes


def may_name_libraries() -> bool:
    """Return False if the user certainly names no library; reads no file."""
    folder = config_directory()
    return bool(os.environ.get(EP_LIBRARIES_VARIABLE)) or any(
        os.path.isfile(folder / name)  # noqa: PTH113 - Path's may raise
        for name in ("ortpkg.toml", "ep_libraries.json")
    )


def forget_ep_libraries() -> None:
    """Forget the libraries, so that they are looked for again; call it after a change."""
    find_ep_libraries.cache_clear()


def _merged(findings: Iterable[EpFinding]) -> EpLibraries:
    """Return one library for each EP, the first that brings it, and a note for each other."""
    libraries: dict[str, EpLibrary] = {}
    notes: list[str] = []
    displaced: dict[str, str] = {}
    for finding in findings:
        if finding.problem:
            notes.append(f"{finding} is not used: {finding.problem}")
            continue
        rivals: dict[str, list[EpLibrary]] = {}
        for name in dict.fromkeys(finding.ep_names):
            library = _library(name, finding)
            first = libraries.setdefault(name, library)
            if first.path != library.path:
                rivals.setdefault(first.path, []).append(first)
        for firsts in rivals.values():
            note = _rival_note(finding, firsts)
            notes.append(note)
            ways = filter(None, (_removal(finding), _removal(firsts[0])))
            displaced[note] = f"remove one of them: {' or '.join(ways)}"
    return EpLibraries(tuple(libraries.values()), tuple(notes), displaced)


def _library(name: str, finding: EpFinding) -> EpLibrary:
    return EpLibrary(
        ep_name=name,
        distribution=finding.distribution,
        version=finding.version,
        path=finding.path,
        origin=finding.origin,
        package=finding.package,
        siblings=tuple(other for other in finding.ep_names if other != name),
    )


def _rival_note(finding: EpFinding, firsts: Sequence[EpLibrary]) -> str:
    """Return the note on a library with EPs that an earlier library has, too."""
    names = ", ".join(first.ep_name for first in firsts)
    verb, same = ("is", "name") if len(firsts) == 1 else ("are", "names")
    return f"{names} of {finding} {verb} not used: {firsts[0]} brings the same {same}"


def _removal(library: EpLibrary | EpFinding) -> str:
    """Return the command that removes a library; "" for one of Windows."""
    if library.distribution:
        return f"pip uninstall {library.distribution}"
    return f"ortpkg ep remove {quoted(library.path)}" if library.origin is EpOrigin.NAMED else ""


def distributions_of_libraries() -> frozenset[str]:
    """Return the names of wheels that may bring a library; no child process is started."""
    return frozenset(candidate.distribution for candidate in ep_candidates())


def ep_library_of(ep_name: str) -> EpLibrary | None:
    """Return the library that brings an execution provider, by full name; None without one."""
    return next(
        (library for library in installed_ep_libraries() if library.ep_name == ep_name), None
    )


def is_emulation_asked_for(ep_name: str) -> bool:
    """Return True if ``ORTPKG_EMULATED_DEVICES`` names the EP, by its name or an alias."""
    return ep_name in map(resolve_ep_name, emulated_names())


def emulated_names() -> list[str]:
    """Return the names in ``ORTPKG_EMULATED_DEVICES`` as they are spelled there."""
    return list(
        filter(None, map(str.strip, os.environ.get(EMULATED_DEVICES_VARIABLE, "").split(",")))
    )


def displaced_note(library: EpLibrary) -> str:
    """Return the note on a library whose execution provider onnxruntime has built in."""
    return f"{library} is not used: this onnxruntime has its own {library.ep_name}"


def displacement_remedies() -> dict[str, str]:
    """Return note → what to do, for libraries that another one displaces.

    Includes the note of each library for an onnxruntime that has its EP built in.
    """
    return {
        **find_ep_libraries().displaced,
        **{
            displaced_note(library): ", or ".join(filter(None, ("nothing", _removal(library))))
            for library in installed_ep_libraries()
        },
    }


def emulation_note(library: EpLibrary, emulation: Emulation) -> str:
    """Return the note that a library can emulate a device, and how to ask for it."""
    return (
        f"{library.ep_name} ({library}) has no device of its own here: it emulates an"
        f" {emulation.type.upper()} on the CPU, for development;"
        f" {EMULATED_DEVICES_VARIABLE}={library.ep_name} offers that"
    )


def emulation_notes() -> frozenset[str]:
    """Return :func:`emulation_note` of each library that emulates a device; none is a fault."""
    return frozenset(
        emulation_note(library, library.emulation)
        for library in installed_ep_libraries()
        if library.emulation is not None
    )


def _can_emulate() -> bool:
    return sys.platform == "linux" and os.uname().machine == "x86_64"
