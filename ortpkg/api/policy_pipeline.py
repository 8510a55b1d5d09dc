"""The policy pipeline of pull request 27786: its steps, in their order, in one place.

1. order devices: ``selection.ranking.order_devices``;
2. select EP devices, and the variant with them: ``selection.selector.select_ep_devices``;
3. log the decision: ``selection.decision_log.log_decision``;
4. create execution providers: ``session.provider_list.create_execution_providers``;
5. register them: ``session.provider_list.register_execution_providers``.

A selection goes as far as step 3; a session on what was selected is steps 4 and 5.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ortpkg.api.model_operators import operator_evidence
from ortpkg.devices.hardware import HardwareDevice
from ortpkg.devices.machine_probe import with_free_memory
from ortpkg.errors import NoSuitableVariantError, ProfileError, quoted
from ortpkg.package.formats.variants import alike
from ortpkg.package.frozen import EMPTY
from ortpkg.package.package_info import ComponentInfo, PackageInfo, VariantInfo
from ortpkg.providers.machine_offer import (
    MachineOffer,
    discover_ep_devices,
    offer_of_profile,
    this_machine,
)
from ortpkg.selection.decision_log import DecisionLog, log_decision
from ortpkg.selection.fit import MUCH_OF_A_GPU, memory_need_of
from ortpkg.selection.ranking import order_devices
from ortpkg.selection.reasons import no_suitable_variant_message
from ortpkg.selection.request import SelectionRequest
from ortpkg.selection.selector import make_request, select_ep_devices
from ortpkg.selection.variant_facts import size_of
from ortpkg.selection.verdict import Selection
from ortpkg.selection.wished_limits import Limits

if TYPE_CHECKING:
    from ortpkg.devices.profiles import MachineProfile
    from ortpkg.selection.measurements import CanaryFailure, SelectionRecords

    Profile = str | Path | MachineProfile

#: As a profile's name: no profile, but this machine.
THIS_MACHINE = "this-machine"


def select_by_policy(
    package: PackageInfo,
    component: ComponentInfo,
    offer: MachineOffer,
    request: SelectionRequest,
    log: DecisionLog | None = None,
) -> Selection:
    """Steps 1 to 3: what is selected of ``component`` on what the machine offers."""
    start_s = time.perf_counter()
    ordered = order_devices(offer.ep_devices, request.policy, offer.hardware)
    selection = select_ep_devices(component, ordered, request)
    log_decision(selection, package, duration_s=time.perf_counter() - start_s, log=log)
    return selection


def select_here(
    package: PackageInfo,
    variant: VariantInfo,
    provider_options: Mapping[str, Mapping[str, str]] = EMPTY,
) -> Selection:
    """Where the variant, which was selected for another machine with these options, would run on
    this one.

    Raises NoSuitableVariantError, with every reason, where it cannot.
    """
    component = package.component(variant.component_name)
    assert component is not None
    alone = replace(component, variants=(variant,))
    offer, machine = offer_for(alone, (), None)
    request = make_request(
        alone,
        offer.ep_devices,
        hardware=offer.hardware,
        compatibility=offer.compatibility,
        provider_options=provider_options,
        notes=offer.notes,
        records=records_of(package, offer, machine),
        asked_memory=offer.asked_memory,
        operators=operator_evidence(offer),
    )
    selection = select_by_policy(package, alone, offer, request)
    if selection.best is None:
        raise NoSuitableVariantError(no_suitable_variant_message(selection), selection=selection)
    return selection


def offer_for(
    component: ComponentInfo,
    eps: Iterable[str],
    profile: Profile | None,
    sizes: Mapping[str, int] = EMPTY,
) -> tuple[MachineOffer, str]:
    """What a machine offers, and the machine's name: that of a profile, "" for this one.

    This machine is asked with every EP in mind that the component or the caller names, and for its
    GPUs' free memory where a variant needs much of one; ``sizes`` is that of :func:`sizes_for`.

    Raises ProfileError for what is no profile.
    """
    if profile is not None and profile != THIS_MACHINE:
        from ortpkg.devices.profiles import MachineProfile, read_profile  # only for another machine

        if not isinstance(profile, (str, os.PathLike, MachineProfile)):
            raise ProfileError(
                f"a profile is a name, a file or a MachineProfile, not {quoted(profile)}",
                file=str(profile),
            )
        found = profile if isinstance(profile, MachineProfile) else read_profile(profile)
        return offer_of_profile(found), found.name
    stated = (group.constraints.ep for group in alike(component.variants))
    named = {*eps, *(ep for ep in stated if ep)}
    offer = this_machine(named=named)
    silent = _devices_to_ask(component, offer.hardware, sizes)
    if not silent:
        return offer, ""
    asked = discover_ep_devices(with_free_memory(offer.machine), named=named)
    return replace(asked, asked_memory=silent), ""


def _devices_to_ask(
    component: ComponentInfo, hardware: Iterable[HardwareDevice], sizes: Mapping[str, int]
) -> tuple[HardwareDevice, ...]:
    """GPUs whose free memory a probe leaves open, if a variant needs much of one: asking takes
    time.
    """
    silent = [
        device
        for device in hardware
        if device.is_discrete and device.memory_nbytes and device.free_memory_nbytes is None
    ]
    if not silent:
        return ()
    needs = (memory_need_of(variant, sizes) for variant in component.variants)
    most_nbytes = max((need.nbytes for need in needs if need is not None), default=0)
    is_much = most_nbytes > MUCH_OF_A_GPU * min(device.memory_nbytes or 0 for device in silent)
    return tuple(silent) if is_much else ()


def records_of(
    package: PackageInfo,
    offer: MachineOffer,
    machine: str,
    canary_failures: Sequence[CanaryFailure] = (),
) -> SelectionRecords | None:
    """What was measured and what failed on this machine.

    None on another one, and where there is nothing.
    """
    if machine:
        return None
    from ortpkg.measuring.kept_records import (
        load_records,  # cheap where nothing is recorded, loads more where something is
    )

    found = load_records(package, offer)
    if not canary_failures:
        return found
    from ortpkg.selection.measurements import (
        SelectionRecords,  # only where something failed just now
    )

    return replace(found or SelectionRecords(), canary_failures=tuple(canary_failures))


def sizes_for(component: ComponentInfo, limits: Limits) -> Mapping[str, int]:
    """Variant → bytes of the files in its folder, where a limit needs a size that the package does
    not record.
    """
    if limits.max_size_nbytes is None and limits.max_memory_nbytes is None:
        return {}
    return {
        variant.name: _nbytes_below(variant.directory)
        for variant in component.variants
        if variant.has_directory and size_of(variant.metadata) is None
    }


def _nbytes_below(directory: Path) -> int:
    """Links are not followed; what cannot be read counts as nothing."""
    found = 0
    for folder, _, files in os.walk(directory):
        for name in files:
            try:
                facts = (Path(folder) / name).lstat()
            except OSError:
                continue
            found += facts.st_size if stat.S_ISREG(facts.st_mode) else 0
    return found
