"""Offer of a machine for selection: hardware, and the EP devices of the factories on it."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ortpkg.foundations.ep_names import CPU_EP, resolve_ep_name
from ortpkg.foundations.errors import ExecutionProviderError, UsageError, quoted
from ortpkg.foundations.variables import unusable_folder
from ortpkg.graph.needed_operators import ModelOperators
from ortpkg.machine.hardware import EpDevice, HardwareDevice
from ortpkg.machine.machine import Machine
from ortpkg.machine.machine_probe import probe
from ortpkg.runtime.providers.ep_discovery.ep_libraries import (
    EMULATED_DEVICES_VARIABLE,
    emulated_names,
)
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility, EpFactory
from ortpkg.runtime.providers.ep_registry import (
    NAMED_FACTORIES,
    available_factories,
    ep_known_here,
    installed_factory,
)
from ortpkg.runtime.providers.openvino_requirements import rating_of_onnxruntime
from ortpkg.runtime.providers.operator_support import OperatorSupport, support_of_absent

if TYPE_CHECKING:
    from ortpkg.machine.profiles import MachineProfile

#: Variables with folders in which something is kept from one command to the next.
_FOLDER_VARIABLES = ("ORTPKG_CACHE_DIR", "ORTPKG_STATE_DIR")
_logged_reasons: set[str] = set()


class NothingOffered(NamedTuple):
    """Reason why an EP offers no device on one backend."""

    ep_name: str
    backend: str
    reason: str


class MachineOffer(NamedTuple):
    """Machine with what execution providers offer on it.

    Attributes:
        machine: the machine, probed or constructed.
        ep_devices: EP devices that the factories report, in default priority order.
        notes: backends and plug-ins that were left out, each with the reason.
        probed_memory: devices whose free memory was asked only because a variant needs much of one.
        reasons: why EPs offer nothing, if that is known.
    """

    machine: Machine
    ep_devices: tuple[EpDevice, ...]
    factories: tuple[EpFactory, ...] = ()
    notes: tuple[str, ...] = ()
    probed_memory: tuple[HardwareDevice, ...] = ()
    reasons: tuple[NothingOffered, ...] = ()

    @property
    def hardware(self) -> tuple[HardwareDevice, ...]:
        """Hardware of the machine, whether or not an execution provider offers it."""
        return self.machine.hardware

    def compatibility(self, ep_device: EpDevice, info: str) -> CompiledModelCompatibility:
        """Return the EP factory's rating of a compatibility string on one EP device.

        UNKNOWN if that factory is not installed. One device at a time: the meaning of a rating for
        several together is not specified upstream.
        """
        return self.joint_compatibility((ep_device,), info)

    def joint_compatibility(
        self, ep_devices: Sequence[EpDevice], info: str
    ) -> CompiledModelCompatibility:
        """Return the joint rating on EP devices of one EP and backend, as onnxruntime asks it."""
        first = ep_devices[0]
        for factory in self.factories:
            if (factory.ep_name, factory.backend) == (first.ep_name, first.backend):
                devices = [
                    ep_device.device for ep_device in ep_devices if ep_device.device is not None
                ]
                rating: object = factory.validate_compiled_model_compatibility_info(devices, info)
                if not isinstance(rating, CompiledModelCompatibility):
                    raise ExecutionProviderError(
                        f"{factory.ep_name} ({factory.backend}) rated a compatibility string"
                        f" {quoted(rating)}, which is no CompiledModelCompatibility",
                        ep_name=factory.ep_name,
                    )
                return rating
        return CompiledModelCompatibility.UNKNOWN

    def compiled_distance(self, ep_device: EpDevice, info: str) -> int:
        """Return how far a compiled model's target is behind an EP device, as its EP counts."""
        factory, devices = self._factory_of(ep_device)
        return 0 if factory is None else factory.compiled_model_distance(devices, info)

    def compiled_refusal(self, ep_device: EpDevice, info: str) -> str:
        """Return why an EP device does not run a compiled model, or runs it badly, or ""."""
        factory, devices = self._factory_of(ep_device)
        return "" if factory is None else factory.compiled_model_refusal(devices, info)

    def _factory_of(self, ep_device: EpDevice) -> tuple[EpFactory | None, Sequence[HardwareDevice]]:
        """Return the factory of an EP device, None if it is not installed, and the device."""
        whose = (ep_device.ep_name, ep_device.backend)
        matching = (
            factory for factory in self.factories if (factory.ep_name, factory.backend) == whose
        )
        return next(matching, None), () if ep_device.device is None else (ep_device.device,)

    def rating_of_release(
        self, ep_devices: Sequence[EpDevice], info: str
    ) -> CompiledModelCompatibility:
        """Return the rating by onnxruntime's own EP, if it may differ from that of our backend."""
        rating = rating_of_onnxruntime(ep_devices[0].ep_name, info)
        if rating is CompiledModelCompatibility.UNKNOWN:
            return self.joint_compatibility(ep_devices, info)
        return rating

    def operator_support(self, ep_device: EpDevice, needed: ModelOperators) -> OperatorSupport:
        """Return the needs of a model that an EP device does not meet.

        Without its factory hardly anything is known.
        """
        for factory in self.factories:
            if (factory.ep_name, factory.backend) == (ep_device.ep_name, ep_device.backend):
                return factory.operator_support(needed)
        return support_of_absent(needed, backend=ep_device.backend)


_offers_of_block: ContextVar[dict[frozenset[str], MachineOffer] | None] = ContextVar(
    "_offers_of_block", default=None
)


@contextlib.contextmanager
def asked_once() -> Iterator[None]:
    """Ask this machine only once for the same EPs inside the block, as by many components."""
    token = _offers_of_block.set({})
    try:
        yield
    finally:
        _offers_of_block.reset(token)


def this_machine(*, ep: str | None = None, named: Collection[str] = ()) -> MachineOffer:
    """Probe this machine, and ask what execution providers offer on it.

    Args:
        ep, named: EPs that a caller or variants name. Some libraries are asked only if their EP is
            among them.

    Returns:
        The hardware and the EP devices, for ``machine=`` of selections.

    Raises:
        UsageError: ``ORTPKG_EMULATED_DEVICES`` has a name of no execution provider.
    """
    verify_emulated_names()
    _tell_of_folders()
    offers = _offers_of_block.get()
    wanted = frozenset({*named, *([ep] if ep else [])})
    if offers is None or wanted not in offers:
        offer = discover_ep_devices(probe(), named=wanted)
        if offers is None:
            return offer
        offers[wanted] = offer
    return offers[wanted]


def verify_emulated_names() -> None:
    """Raise UsageError if ``ORTPKG_EMULATED_DEVICES`` has a name of no execution provider."""
    for text in emulated_names():
        try:
            ep_known_here(text)
        except UsageError as error:
            raise UsageError(f"{EMULATED_DEVICES_VARIABLE}: {error}") from None


def _tell_of_folders() -> None:
    """Warn, once per process, of folders in variables that cannot be used."""
    for name in _FOLDER_VARIABLES:
        reason = unusable_folder(name)
        if reason and reason not in _logged_reasons:
            import logging  # only on the way to a warning

            _logged_reasons.add(reason)
            logging.getLogger(__name__).warning("%s: nothing is kept there", reason)


def discover_ep_devices(
    machine: Machine, *, ep: str | None = None, named: Collection[str] = ()
) -> MachineOffer:
    """Ask every available EP factory what it offers on ``machine``.

    A factory that fails is left out and noted; nothing is raised.

    Args:
        machine: machine whose hardware the factories are asked about.
        ep: an EP that the caller names. All others are asked too, so that verdicts on them are
            right.
        named: EPs that variants name. A plug-in is imported only if ``ep`` or ``named`` has it.
    """
    wanted = {resolve_ep_name(name) for name in (*named, *([ep] if ep else []))}
    available = available_factories(machine.hardware, named=wanted)
    ep_devices: list[EpDevice] = []
    notes = list(available.notes)
    reasons: list[NothingOffered] = []
    for factory in available.factories:
        offered, reason, is_failure = _offered(factory, machine.hardware)
        ep_devices += offered
        if offered and factory.offer_note:
            notes.append(factory.offer_note)
        if reason:
            reasons.append(NothingOffered(factory.ep_name, factory.backend, reason))
        if reason and (is_failure or factory.ep_name in wanted or not wanted):
            notes.append(reason)
    return MachineOffer(
        machine=machine,
        ep_devices=tuple(ep_devices),
        factories=tuple(factory.for_machine(machine.os, None) for factory in available.factories),
        notes=tuple(dict.fromkeys(notes)),
        reasons=tuple(reasons),
    )


def _offered(
    factory: EpFactory, hardware: Sequence[HardwareDevice]
) -> tuple[list[EpDevice], str, bool]:
    """Return a factory's devices, the reason if there are none, and True for a failure."""
    try:
        checked = _checked(factory, factory.get_supported_devices(hardware))
        reason = "" if checked else factory.nothing_offered_note
    except ExecutionProviderError as error:
        return [], str(error), True
    except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; it must not take selection along
        cause = f"{type(error).__name__}: {quoted(error)}"
        reason = f"{factory.ep_name} ({factory.backend}) failed to report its devices: {cause}"
        return [], reason, True
    return checked, reason, False


def _checked(factory: EpFactory, offered: object) -> list[EpDevice]:
    """Return a factory's offer; ExecutionProviderError if a plug-in returns something else."""
    if not isinstance(offered, list | tuple):
        offered = [offered]
    for ep_device in offered:
        if not _is_own_offer(factory, ep_device):
            raise ExecutionProviderError(
                f"{factory.ep_name} ({factory.backend}) reported {quoted(ep_device)} where an"
                " EpDevice of its own name and backend belongs",
                ep_name=factory.ep_name,
            )
    return list(offered)


def _is_own_offer(factory: EpFactory, offer: object) -> bool:
    return (
        isinstance(offer, EpDevice)
        and (offer.ep_name, offer.backend) == (factory.ep_name, factory.backend)
        and (offer.device is None or isinstance(offer.device, HardwareDevice))
    )


def _rates_known_devices(factory: EpFactory, profile: MachineProfile) -> bool:
    return (
        factory.backend == "onnxruntime"
        and factory.ep_name != CPU_EP
        and any(
            ep_device.ep_name == factory.ep_name and ep_device.device is not None
            for ep_device in profile.ep_devices
        )
    )


def _own_unasked(profile: MachineProfile, named: Collection[str]) -> list[EpDevice]:
    """Return the EP devices of our own EPs that are offered because they are named."""
    engines = [
        ep_device
        for ep_device in profile.ep_devices
        if ep_device.ep_name == CPU_EP
        and ep_device.backend == "embedded"
        and ep_device.device is not None
    ]
    present = {ep_device.ep_name for ep_device in profile.ep_devices}
    wanted = sorted({*map(resolve_ep_name, named)} & NAMED_FACTORIES.keys() - present)
    machine = profile.machine
    return [
        replace(ep_device, ep_version=engines[0].ep_version)
        for name in wanted
        if engines
        for ep_device in NAMED_FACTORIES[name]()
        .for_machine(machine.os, profile.software)
        .get_supported_devices(machine.hardware)
    ]


def offer_of_profile(profile: MachineProfile, *, named: Collection[str] = ()) -> MachineOffer:
    """Return the offer of a profile's machine: its EP devices, exactly as the profile has them.

    If ortpkg's embedded engine is among them, so are those of our own EPs that are ``named`` and
    that no machine offers unasked: they come with ortpkg. A factory installed here rates a
    compatibility string only if the profile has the same EP, on the same backend in the same
    version; otherwise the rating is COMPATIBILITY_UNKNOWN. No plug-in is imported.
    """
    unasked = _own_unasked(profile, named)
    ep_devices = (*profile.ep_devices, *unasked) if unasked else profile.ep_devices
    wanted = dict.fromkeys(
        (ep_device.ep_name, ep_device.backend, ep_device.ep_version) for ep_device in ep_devices
    )
    factories = [
        installed_factory(ep_name, backend=backend, version=version)
        for ep_name, backend, version in wanted
    ]
    for factory in factories:
        if factory is not None and _rates_known_devices(factory, profile):
            # onnxruntime rates only for devices that it has here; this finds those of the profile.
            with contextlib.suppress(ExecutionProviderError):
                factory.get_supported_devices(profile.machine.hardware)
    return MachineOffer(
        machine=profile.machine,
        ep_devices=ep_devices,
        factories=tuple(
            factory.for_machine(profile.machine.os, profile.software)
            for factory in factories
            if factory is not None
        ),
        notes=(
            (
                (
                    f"the machine profile {quoted(profile.name)} is constructed: nobody probed such"
                    " a machine"
                ),
            )
            if profile.constructed
            else ()
        ),
    )
