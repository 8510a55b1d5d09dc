"""This machine as a profile: its hardware, what EPs offer on it, and which software it has."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from ortpkg.devices.machine_probe import probe, with_free_memory
from ortpkg.devices.profiles import MachineProfile, make_profile, profile_to_json
from ortpkg.documents.json_documents import dump_document
from ortpkg.errors import ProfileError, quoted
from ortpkg.isolation.backend_probe import doubting_refusals
from ortpkg.providers.ep_discovery.ep_libraries import installed_ep_libraries
from ortpkg.providers.ep_registry import ep_known_here
from ortpkg.providers.machine_offer import discover_ep_devices, verify_emulated_names
from ortpkg.providers.onnxruntime_factory import DISTRIBUTIONS, installed_distributions
from ortpkg.storage.output_file import write_output

#: Distributions whose versions decide what runs here.
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
    """Probe this machine and asks its backends, for one value that can be stored.

    Args:
        name: the profile's; nothing of the machine that could name it or its user (host name,
            serial numbers) is read.
        eps: execution providers (or aliases) to ask besides; a plug-in is imported only where it is
            named here.

    Raises UsageError for a name that no execution provider or plug-in has, also in
    ``ORTPKG_EMULATED_DEVICES``. What fails is a note of
    the machine.
    """
    with doubting_refusals():  # who looks may have installed what was missing
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
    """Distribution → version, of those that decide what runs here and are installed.

    Wheels that bring execution providers for onnxruntime are among them.
    """
    found = {}
    libraries = installed_ep_libraries() if installed_distributions() else ()
    wheels = [library.distribution for library in libraries if library.distribution]
    for name in dict.fromkeys((*SOFTWARE, *wheels)):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def write_profile(profile: MachineProfile, path: Path) -> None:
    """Write a profile in one step, replacing a file that is there.

    ProfileError where that is not possible.
    """
    try:
        write_output(path, lambda file: file.write(dump_document(profile_to_json(profile))))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ProfileError(
            f"the profile cannot be written to {quoted(path)}: {reason}", file=path
        ) from error
