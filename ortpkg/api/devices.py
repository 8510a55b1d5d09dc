"""Profile of this machine: its hardware, the offers of EPs on it, and its software."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from ortpkg.foundations.documents.json_documents import dump_document
from ortpkg.foundations.errors import ProfileError, quoted
from ortpkg.foundations.isolation.backend_probe import doubting_refusals
from ortpkg.foundations.storage.output_writing import write_output
from ortpkg.machine.machine_probe import probe, with_free_memory
from ortpkg.machine.profiles import MachineProfile, make_profile, profile_to_json
from ortpkg.runtime.providers.ep_discovery.ep_libraries import installed_ep_libraries
from ortpkg.runtime.providers.ep_registry import ep_known_here
from ortpkg.runtime.providers.machine_offer import discover_ep_devices, verify_emulated_names
from ortpkg.runtime.providers.onnxruntime_factory import DISTRIBUTIONS, installed_distributions

#: Distributions whose versions determine what runs here.
SOFTWARE: tuple[str, ...] = (
    "ortpkg",
    *DISTRIBUTIONS,
    "onnxruntime-genai",
    "openvino",
    "onnx",
    "numpy",
    "llvmlite",
)
THIS_MACHINE = "this-machine"


def profile_of_this_machine(
    name: str = THIS_MACHINE, *, eps: Collection[str] = ()
) -> MachineProfile:
    """Probe this machine and ask its backends; return one value that can be stored.

    A failure of a backend becomes a note of the machine.

    Args:
        name: name of the profile; nothing that could identify the machine or its user (host name,
            serial numbers) is read.
        eps: execution providers (or aliases) to ask in addition; a plug-in is imported only if it
            is named here.

    Raises:
        UsageError: no execution provider or plug-in has a name, also in
            ``ORTPKG_EMULATED_DEVICES``.
    """
    with doubting_refusals():  # what was missing may have been installed meanwhile
        verify_emulated_names()
        named = [ep_known_here(ep) for ep in eps]
        machine = with_free_memory(probe())
        offer = discover_ep_devices(machine, named=named)
    notes = (*machine.notes, *offer.notes)
    return make_profile(
        name,
        replace(machine, notes=tuple(dict.fromkeys(notes))),
        offer.ep_devices,
        software=software_versions(),
    )


def software_versions() -> dict[str, str]:
    """Return distribution → version, of those that determine what runs here and are installed.

    It includes wheels with execution providers for onnxruntime.
    """
    versions = {}
    libraries = installed_ep_libraries() if installed_distributions() else ()
    wheels = [library.distribution for library in libraries if library.distribution]
    for name in dict.fromkeys((*SOFTWARE, *wheels)):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def write_profile(profile: MachineProfile, path: Path) -> None:
    """Write a profile in one step, replacing an existing file.

    Raises:
        ProfileError: the file cannot be written.
    """
    try:
        write_output(path, lambda file: file.write(dump_document(profile_to_json(profile))))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ProfileError(
            f"the profile cannot be written to {quoted(path)}: {reason}", file=path
        ) from error
