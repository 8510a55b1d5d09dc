"""The policy pipeline of pull request 27786, with its steps in order.

1. order devices: ``selection.matching.ranking.order_devices``; 2. select EP devices, and the
variant with
them: ``selection.matching.selector.select_ep_devices``; 3. log the decision:
``selection.matching.decision_log.log_decision``; 4. create execution providers:
``runtime.session.provider_list.create_execution_providers``; 5. register them:
``runtime.session.provider_list.register_execution_providers``.

A selection ends with step 3; a session on the selected variant takes steps 4 and 5.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.errors import ProfileError, UsageError, quoted
from ortpkg.foundations.host.directories import has_records
from ortpkg.machine.hardware import HardwareDevice
from ortpkg.machine.machine_probe import with_free_memory
from ortpkg.machine.policies import RELEASE_POLICIES, policy_named
from ortpkg.package.derived_variants import current_digests, is_derived, source_of, why_stale
from ortpkg.package.formats.variants import alike
from ortpkg.package.package_info import ComponentInfo, PackageInfo, VariantInfo
from ortpkg.package.sidecar import DIGESTS_FILE, has_digests
from ortpkg.runtime.providers.machine_offer import (
    MachineOffer,
    discover_ep_devices,
    offer_of_profile,
    this_machine,
)
from ortpkg.selection.choosing.model_operators import operator_evidence
from ortpkg.selection.matching.decision_log import log_decision
from ortpkg.selection.matching.fit import MUCH_OF_A_GPU, memory_need_of
from ortpkg.selection.matching.reasons import selected
from ortpkg.selection.matching.request import make_request, verify_wishes, wished_eps
from ortpkg.selection.matching.selector import select_ep_devices
from ortpkg.selection.matching.variant_facts import size_of
from ortpkg.selection.matching.verdict import Selection
from ortpkg.selection.matching.wished_limits import NO_LIMITS, limits_of
from ortpkg.selection.matching.wishes import ANY_VARIANT, SelectionWishes

if TYPE_CHECKING:
    from ortpkg.package.trust.publisher_trust import PublisherTrust
    from ortpkg.selection.matching.measurements import CanaryFailure, SelectionRecords

#: Warning of a selection from a package without digests.json.
UNVERIFIED = f"unverified: the package has no {DIGESTS_FILE}, so damage would go unnoticed"
#: Name of a profile that stands for this machine.
THIS_MACHINE = "this-machine"
#: (root, identity of the offer) → the offer, kept alive for its identity, and the records.
_RecordsCache: TypeAlias = "dict[tuple[Path, int], tuple[MachineOffer, SelectionRecords | None]]"
_records_cache: ContextVar[_RecordsCache | None] = ContextVar("_records_cache", default=None)


def select_component(
    package: PackageInfo,
    component: ComponentInfo,
    wishes: SelectionWishes,
    canary_failures: Sequence[CanaryFailure] = (),
    *,
    trust: bool = False,
    publisher: Callable[[], PublisherTrust] | None = None,
) -> Selection:
    """Select a variant of ``component``, and log the decision.

    The component may have been narrowed to some of its variants. For errors see
    :meth:`~ortpkg.ModelPackage.select`.

    Args:
        package, component, wishes: what to select from, and the criteria.
        canary_failures: variants that just failed a try.
        trust: True if native code of the package may run, whoever made it.
        publisher: returns what the publisher may ship; None to use the package's own signatures.
    """
    verify_wishes(wishes)
    policy = policy_named(wishes.policy)
    offer, machine = offer_for(component, wishes)
    start_s = time.perf_counter()
    if policy in RELEASE_POLICIES:
        selection = _select_as_release(package, component, wishes, offer, machine)
    else:
        request = make_request(
            component,
            offer.ep_devices,
            wishes,
            hardware=offer.hardware,
            compatibility=offer.compatibility,
            notes=(*offer.notes, *_verification_notes(package)),
            known_eps={factory.ep_name for factory in offer.factories},
            sizes=_sizes_for(component, wishes),
            records=machine_records(package, offer, machine, canary_failures),
            machine=machine,
            probed_memory=offer.probed_memory,
            operators=operator_evidence(offer),
            package_version=package.version,
            compiled_distance=offer.compiled_distance,
            compiled_refusal=offer.compiled_refusal,
            why_stale=_staleness(package, component),
            why_refused=_refusals(package, publisher, is_asked=not (trust or machine)),
            is_narrowed=_is_narrowed(package, component),
        )
        selection = select_ep_devices(component, request)
    duration_s = time.perf_counter() - start_s
    log_decision(selection, package, duration_s=duration_s, log=wishes.log)
    return selection


def _select_as_release(
    package: PackageInfo,
    component: ComponentInfo,
    wishes: SelectionWishes,
    offer: MachineOffer,
    machine: str,
) -> Selection:
    # The rules of releases are imported only on demand.
    from ortpkg.selection.releases.release_selector import select_as_release
    from ortpkg.selection.releases.release_view import release_view

    policy = policy_named(wishes.policy)
    narrows = wishes.device is not None or wishes.check_architecture or wishes.provider_options
    if narrows or limits_of(wishes) != NO_LIMITS:
        raise UsageError(
            f"policy {policy} goes by execution providers alone: it takes no device, architecture,"
            " options of providers or limits"
        )
    view = release_view(package, component, policy)
    more = replace(component, variants=(*component.variants, *view.more))
    selection = select_as_release(
        more if view.more else component,
        offer.ep_devices,
        policy=policy,
        hardware=offer.hardware,
        compatibility=offer.rating_of_release,
        eps=[name.strip() for names in wished_eps(wishes.ep) for name in names.split(",")],
        constraints=view.constraints,
        refusal=view.refusal,
        notes=(*offer.notes, *_verification_notes(package)),
    )
    return replace(selection, machine=machine)


def select_here(
    package: PackageInfo,
    variant: VariantInfo,
    provider_options: Mapping[str, Mapping[str, str]] = EMPTY,
    *,
    trust: bool = False,
) -> Selection:
    """Return the selection on this machine for a variant that was chosen for another one.

    ``provider_options`` are those of the other selection.

    Raises:
        NoSuitableVariantError: it cannot run here; the message has every reason.
    """
    component = package.component(variant.component_name)
    assert component is not None
    alone = replace(component, variants=(variant,))
    wishes = SelectionWishes(provider_options=provider_options)
    selection = select_component(package, alone, wishes, trust=trust)
    selected(selection)
    return selection


def _is_narrowed(package: PackageInfo, component: ComponentInfo) -> bool:
    """Return True if the component has fewer variants than it has in its package."""
    complete_component = package.component(component.name)
    return complete_component is not None and len(component.variants) < len(
        complete_component.variants
    )


def _staleness(package: PackageInfo, component: ComponentInfo) -> Callable[[VariantInfo], str]:
    """Return a function that tells why a derived variant is stale; "" if it is not.

    Packages read by the rules of a release have no stale variants, since releases know no records.
    """
    digests_of, complete_component = current_digests(package), package.component(component.name)

    def of_variant(variant: VariantInfo) -> str:
        if package.compat is not None or complete_component is None or not is_derived(variant):
            return ""
        return why_stale(variant, source_of(variant, complete_component), digests_of)

    return of_variant


def _refusals(
    package: PackageInfo, publisher: Callable[[], PublisherTrust] | None, *, is_asked: bool
) -> Callable[[VariantInfo], str]:
    """Return a function that tells why a session here would refuse a compiled variant.

    Only for this machine: what other machines compiled, and whom they trust, is unknown.
    """
    if not is_asked:
        return lambda _variant: ""

    def of_variant(variant: VariantInfo) -> str:
        from ortpkg.selection.contexts.context_verdict import (
            ContextVerdicts,
        )  # imported only if some are compiled

        return ContextVerdicts(package, publisher).why_refused(variant)

    return of_variant


def _verification_notes(package: PackageInfo) -> tuple[str, ...]:
    is_spared = package.compat is not None or package.is_bare_model
    return () if is_spared or has_digests(package.root) else (UNVERIFIED,)


def offer_for(
    component: ComponentInfo, wishes: SelectionWishes = ANY_VARIANT
) -> tuple[MachineOffer, str]:
    """Return the offer of a machine, and the machine's name: that of a profile, "" for this one.

    This machine is asked for every EP that the component or the caller names, and for its GPUs'
    free memory if a variant needs much of one. An offer that the caller holds is taken as it is.

    Raises:
        ProfileError: not a profile.
        UsageError: both an offer and a profile are given.
    """
    if wishes.machine is not None:
        return _held_offer(wishes.machine, wishes), ""
    constrained_eps = (group.constraints.ep for group in alike(component.variants))
    named = {*wished_eps(wishes.ep), *(ep for ep in constrained_eps if ep)}
    profile = wishes.profile
    if profile is not None and profile != THIS_MACHINE:
        from ortpkg.machine.profiles import (
            MachineProfile,
            read_profile,
        )  # imported only for another machine

        if not isinstance(profile, (str, os.PathLike, MachineProfile)):
            raise ProfileError(
                f"a profile is a name, a file or a MachineProfile, not {quoted(profile)}",
                file=str(profile),
            )
        machine_profile = profile if isinstance(profile, MachineProfile) else read_profile(profile)
        return offer_of_profile(machine_profile, named=named), machine_profile.name
    offer = this_machine(named=named)
    _verify_named(wishes, offer)
    silent = _devices_to_ask(component, offer.hardware, wishes)
    if not silent:
        return offer, ""
    offer_with_memory = discover_ep_devices(with_free_memory(offer.machine), named=named)
    return offer_with_memory._replace(probed_memory=silent), ""


def _held_offer(offer: MachineOffer, wishes: SelectionWishes) -> MachineOffer:
    if wishes.profile is not None:
        raise UsageError(
            f"a selection is for a machine or for profile {quoted(wishes.profile)}, not for both"
        )
    _verify_named(wishes, offer)
    return offer


def _verify_named(wishes: SelectionWishes, offer: MachineOffer) -> None:
    """Raise an error if the caller names an EP or a backend whose library is not installed."""
    if wishes.ep or wishes.backend != "auto":
        from ortpkg.runtime.providers.missing_libraries import (
            verify_installed,
        )  # imported only if one is named

        verify_installed(wished_eps(wishes.ep), wishes.backend, offer.ep_devices)


def _devices_to_ask(
    component: ComponentInfo, hardware: Iterable[HardwareDevice], wishes: SelectionWishes
) -> tuple[HardwareDevice, ...]:
    """Return GPUs of unknown free memory, if a variant needs much of it; asking them takes time."""
    silent = [
        device
        for device in hardware
        if device.is_discrete and device.memory_nbytes and device.free_memory_nbytes is None
    ]
    if not silent:
        return ()
    sizes = _sizes_for(component, wishes)
    needs = (memory_need_of(variant, sizes) for variant in component.variants)
    most_nbytes = max((need.nbytes for need in needs if need is not None), default=0)
    is_much = most_nbytes > MUCH_OF_A_GPU * min(device.memory_nbytes or 0 for device in silent)
    return tuple(silent) if is_much else ()


@contextlib.contextmanager
def records_read_once() -> Iterator[None]:
    """Read the records of a package only once in the block, however many components it has."""
    token = _records_cache.set({})
    try:
        yield
    finally:
        _records_cache.reset(token)


def machine_records(
    package: PackageInfo,
    offer: MachineOffer,
    machine: str,
    canary_failures: Sequence[CanaryFailure] = (),
) -> SelectionRecords | None:
    """Return the records of a package on this machine.

    None for another machine, and if nothing is recorded.
    """
    if machine:
        return None
    records = None
    if has_records():
        records = _cached_records_of(package, offer)
    if not canary_failures:
        return records
    from ortpkg.selection.matching.measurements import SelectionRecords  # as above

    return replace(records or SelectionRecords(), canary_failures=tuple(canary_failures))


def _cached_records_of(package: PackageInfo, offer: MachineOffer) -> SelectionRecords | None:
    # imports hashing and JSON: only if there are records
    from ortpkg.selection.measuring.record_store import load_records

    cache = _records_cache.get()
    if cache is None:
        return load_records(package, offer)
    key = package.root, id(offer)
    if key not in cache:
        cache[key] = offer, load_records(package, offer)
    return cache[key][1]


def _sizes_for(component: ComponentInfo, wishes: SelectionWishes) -> Mapping[str, int]:
    """Variant → bytes of its folder's files, if a limit needs a size that no record has."""
    if wishes.max_size is None and wishes.max_memory is None:
        return EMPTY
    return {
        variant.name: _nbytes_below(variant.directory)
        for variant in component.variants
        if variant.has_directory and size_of(variant.metadata) is None
    }


def _nbytes_below(directory: Path) -> int:
    """Return the bytes of all files below a directory.

    Links are not followed, and unreadable files count as empty.
    """
    total = 0
    for folder, _, files in os.walk(directory):
        for name in files:
            try:
                facts = (Path(folder) / name).lstat()
            except OSError:
                continue
            total += facts.st_size if stat.S_ISREG(facts.st_mode) else 0
    return total
