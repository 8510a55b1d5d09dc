"""Finds, without importing them, installed wheels that bring an EP's library for onnxruntime.

Such a wheel (``onnxruntime-ep-openvino``, ``onnxruntime-qnn`` since 2.0) has a package of its own
name with a native library ``onnxruntime_providers_<name>`` for
``register_execution_provider_library``, and a constant with the name of its execution provider
(``get_ep_name()`` returns it). Both are read as files.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ortpkg.devices.hardware import DeviceType
from ortpkg.ep_names import QNN_EP, resolve_ep_name
from ortpkg.providers.installed_metadata import recorded_distributions

#: Names of execution providers, separated by commas, whose emulated devices are offered. Emulated
#: devices are offered for no other reason.
EMULATED_DEVICES_VARIABLE = "ORTPKG_EMULATED_DEVICES"
#: How the note of a library ends that works, and offers nothing here.
NO_DEVICE = "offers no device on this machine"
_PREFIX = "onnxruntime-"
#: Where folder names do not tell what is installed, these are looked for by name.
_KNOWN_WHEELS = ("onnxruntime-qnn", "onnxruntime-ep-openvino")
_ENDINGS = {"win32": ".dll", "darwin": ".dylib"}
_LIBRARY = re.compile(r"(lib)?onnxruntime_providers_(?!shared\b)\w+")
_EP_NAME = re.compile(
    r"""^_?EP_NAME\s*(?::[^=\n]+)?=\s*["'](\w+ExecutionProvider)["']""", re.MULTILINE
)
#: More is not read of a package's ``__init__.py``.
_MOST_SOURCE_CHARACTERS = 1 << 16


class Emulation(NamedTuple):
    """How an execution provider plays a device that the machine does not have.

    Attributes:
        type: what it plays.
        name: of the device, for people.
        architecture: of it, in the vendor's word.
        library: that does it; it lies beside the execution provider's.
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
    """An execution provider's library for onnxruntime, of an installed wheel.

    Attributes:
        ep_name: the execution provider; the library is registered under this name.
        distribution, version: of the wheel.
        path: of the library.
    """

    ep_name: str
    distribution: str
    version: str
    path: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"

    @property
    def emulation(self) -> Emulation | None:
        """The device that it emulates on a machine like this one.

        None where it has real ones only.
        """
        found = _EMULATIONS.get(self.ep_name)
        return (
            found
            if found is not None and _can_emulate() and self.file_beside(found.library)
            else None
        )

    def file_beside(self, name: str) -> str:
        """The path of a file in the library's folder; "" where it has none of that name."""
        path = Path(self.path).with_name(name)
        return str(path) if path.is_file() else ""

    def fingerprint(self) -> dict[str, object]:
        """What is another library by then, if it was replaced in place."""
        try:
            status = Path(self.path).stat()
        except OSError:
            return {"library": [str(self), self.path]}
        return {"library": [str(self), self.path, status.st_size, status.st_mtime_ns]}


@cache
def installed_ep_libraries() -> tuple[EpLibrary, ...]:
    """Those of this environment, in the order of their distributions' names."""
    found = recorded_distributions(_PREFIX)
    placed = _known_places() if found is None else [(name, *found[name]) for name in sorted(found)]
    libraries: dict[str, EpLibrary] = {}
    for distribution, version, folder in placed:
        for library in _libraries_in(
            distribution, version, Path(folder, distribution.replace("-", "_"))
        ):
            libraries.setdefault(library.ep_name, library)
    return tuple(libraries.values())


def ep_library_of(ep_name: str) -> EpLibrary | None:
    """The installed library that brings that execution provider; None where none does."""
    return next(
        (library for library in installed_ep_libraries() if library.ep_name == ep_name), None
    )


def is_emulation_asked_for(ep_name: str) -> bool:
    """Whether ``ORTPKG_EMULATED_DEVICES`` names the execution provider (aliases are understood)."""
    return ep_name in map(resolve_ep_name, emulated_names())


def emulated_names() -> list[str]:
    """What ``ORTPKG_EMULATED_DEVICES`` names, as it does."""
    return list(
        filter(None, map(str.strip, os.environ.get(EMULATED_DEVICES_VARIABLE, "").split(",")))
    )


def emulation_note(library: EpLibrary, emulation: Emulation) -> str:
    """What is said where the emulated device is not asked for."""
    return (
        f"{library.ep_name} ({library}) has no device of its own here: it emulates an"
        f" {emulation.type.upper()} on the CPU, for development;"
        f" {EMULATED_DEVICES_VARIABLE}={library.ep_name} offers that"
    )


def emulation_notes() -> frozenset[str]:
    """The notes of installed libraries that emulate a device: to have one is no fault."""
    return frozenset(
        emulation_note(library, library.emulation)
        for library in installed_ep_libraries()
        if library.emulation is not None
    )


def _can_emulate() -> bool:
    return sys.platform == "linux" and os.uname().machine == "x86_64"


def _libraries_in(distribution: str, version: str, package: Path) -> Iterator[EpLibrary]:
    ending = _ENDINGS.get(sys.platform, ".so")
    try:
        files = sorted(each for each in package.iterdir() if each.suffix == ending)
        paths = [each for each in files if _LIBRARY.fullmatch(each.stem)]
        if not paths:
            return
        with (package / "__init__.py").open(encoding="utf-8", errors="replace") as file:
            named = _EP_NAME.search(file.read(_MOST_SOURCE_CHARACTERS))
    except OSError:  # no package of that name, or one that nobody can read
        return
    if named is not None:
        yield EpLibrary(
            ep_name=named[1], distribution=distribution, version=version, path=str(paths[0])
        )


def _known_places() -> Iterator[tuple[str, str, str]]:
    from importlib import metadata  # 15 ms; only where folder names do not tell

    for name in _KNOWN_WHEELS:
        spec = importlib.util.find_spec(name.replace("-", "_"))
        if spec is not None and spec.origin is not None:
            try:
                yield name, metadata.version(name), str(Path(spec.origin).parent.parent)
            except metadata.PackageNotFoundError:
                continue
