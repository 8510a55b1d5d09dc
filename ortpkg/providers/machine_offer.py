"""What a machine offers for selection: hardware, and the EP devices of the factories on it."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ortpkg.devices.hardware import EpDevice, HardwareDevice
from ortpkg.devices.machine import Machine
from ortpkg.devices.machine_probe import probe
from ortpkg.ep_names import CPU_EP, resolve_ep_name
from ortpkg.errors import ExecutionProviderError, UsageError, quoted
from ortpkg.graph.needed_operators import ModelOperators
from ortpkg.providers.ep_discovery.ep_libraries import EMULATED_DEVICES_VARIABLE, emulated_names
from ortpkg.providers.ep_factory import CompiledModelCompatibility, EpFactory
from ortpkg.providers.ep_registry import (
    NAMED_FACTORIES,
    available_factories,
    ep_known_here,
    installed_factory,
)
from ortpkg.providers.openvino_requirements import rating_of_onnxruntime
from ortpkg.providers.operator_support import OperatorSupport, support_of_absent
from ortpkg.variables import unusable_folder

if TYPE_CHECKING:
    from ortpkg.devices.profiles import MachineProfile

#: Name folders in which something is kept from one command to the next.
_FOLDER_VARIABLES = ("ORTPKG_CACHE_DIR", "ORTPKG_STATE_DIR")
_told: set[str] = set()


class NothingOffered(NamedTuple):
    """Reason why an EP offers no device on one backend."""

    ep_name: str
    backend: str
    reason: str


class MachineOffer(NamedTuple):
    """A machine with what execution providers offer on it.

    Attributes:
        machine: as it was probed or constructed.
        ep_devices: what the factories report, in default priority order.
        notes: backends and plug-ins that were left out, each with the reason.
        asked_memory: devices whose free memory was asked only because a variant needs much of one.
        reasons: why EPs offer nothing, where that is known.
    """

    machine: Machine
    ep_devices: tuple[EpDevice, ...]
    factories: tuple[EpFactory, ...] = ()
    notes: tuple[str, ...] = ()
    asked_memory: tuple[HardwareDevice, ...] = ()
    reasons: tuple[NothingOffered, ...] = ()

    @property
    def hardware(self) -> tuple[HardwareDevice, ...]:
        """What the machine has, whether or not an execution provider offers it."""
        return self.machine.hardware

    def compatibility(self, ep_device: EpDevice, info: str) -> CompiledModelCompatibility:
        """The EP factory's rating of a compatibility string on one EP device.

        UNKNOWN where that factory is not installed.

        One device at a time: what a rating of several together means is not specified upstream.
        """
        return self.joint_compatibility((ep_device,), info)

    def joint_compatibility(
        self, ep_devices: Sequence[EpDevice], info: str
    ) -> CompiledModelCompatibility:
        """The joint rating on EP devices of one EP and backend, as onnxruntime asks for it."""
        first = ep_devices[0]
        for factory in self.factories:
            if (factory.ep_name, factory.backend) == (first.ep_name, first.backend):
                devices = [each.device for each in ep_devices if each.device is not None]
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
        """How far behind an EP device that one is which a model was compiled for, by its EP."""
        factory, devices = self._factory_of(ep_device)
        return 0 if factory is None else factory.compiled_model_distance(devices, info)

    def compiled_refusal(self, ep_device: EpDevice, info: str) -> str:
        """Why an EP device does not run what a string is for, or runs it badly; "" if not known."""
        factory, devices = self._factory_of(ep_device)
        return "" if factory is None else factory.compiled_model_refusal(devices, info)

    def _factory_of(self, ep_device: EpDevice) -> tuple[EpFactory | None, Sequence[HardwareDevice]]:
        """Who offers an EP device, None where that is not installed, and the device itself."""
        whose = (ep_device.ep_name, ep_device.backend)
        found = (each for each in self.factories if (each.ep_name, each.backend) == whose)
        return next(found, None), () if ep_device.device is None else (ep_device.device,)

    def rating_of_release(
        self, ep_devices: Sequence[EpDevice], info: str
    ) -> CompiledModelCompatibility:
        """The rating by onnxruntime's own EP, if that is known to differ from our backend's."""
        known = rating_of_onnxruntime(ep_devices[0].ep_name, info)
        if known is CompiledModelCompatibility.UNKNOWN:
            return self.joint_compatibility(ep_devices, info)
        return known

    def operator_support(self, ep_device: EpDevice, needed: ModelOperators) -> OperatorSupport:
        """What of a model's needs an EP device does not meet.

        Without its factory hardly anything can be told.
        """
        for factory in self.factories:
            if (factory.ep_name, factory.backend) == (ep_device.ep_name, ep_device.backend):
                return factory.operator_support(needed)
        return support_of_absent(needed, backend=ep_device.backend)


_kept_offers: ContextVar[dict[frozenset[str], MachineOffer] | None] = ContextVar(
    "_kept_offers", default=None
)


@contextlib.contextmanager
def asked_once() -> Iterator[None]:
    """Has this machine asked once for the same EPs in the block, as by many components."""
    token = _kept_offers.set({})
    try:
        yield
    finally:
        _kept_offers.reset(token)


def this_machine(*, ep: str | None = None, named: Collection[str] = ()) -> MachineOffer:
    """Probes this machine and asks the factories; see :func:`discover_ep_devices`.

    Raises UsageError where ``ORTPKG_EMULATED_DEVICES`` names what is no execution provider.
    """
    verify_emulated_names()
    _tell_of_folders()
    kept = _kept_offers.get()
    wanted = frozenset({*named, *([ep] if ep else [])})
    if kept is None or wanted not in kept:
        offer = discover_ep_devices(probe(), named=wanted)
        if kept is None:
            return offer
        kept[wanted] = offer
    return kept[wanted]


def verify_emulated_names() -> None:
    """UsageError where ``ORTPKG_EMULATED_DEVICES`` names what is no execution provider."""
    for text in emulated_names():
        try:
            ep_known_here(text)
        except UsageError as error:
            raise UsageError(f"{EMULATED_DEVICES_VARIABLE}: {error}") from None


def _tell_of_folders() -> None:
    """Warns, once per process, of folders of the environment that cannot be used."""
    for name in _FOLDER_VARIABLES:
        reason = unusable_folder(name)
        if reason and reason not in _told:
            import logging  # only on the way to a warning

            _told.add(reason)
            logging.getLogger(__name__).warning("%s: nothing is kept there", reason)


def discover_ep_devices(
    machine: Machine, *, ep: str | None = None, named: Collection[str] = ()
) -> MachineOffer:
    """Asks every available EP factory what it offers on ``machine``.

    Args:
        machine: whose hardware the factories are asked about.
        ep: an EP that the caller names. All others are asked too, so that every verdict tells the
            truth about them.
        named: EPs that variants name. A plug-in is imported only where ``ep`` or ``named`` has it.

    A factory that fails is left out and noted; nothing is raised.
    """
    wanted = {resolve_ep_name(name) for name in (*named, *([ep] if ep else []))}
    found = available_factories(machine.hardware, named=wanted)
    ep_devices: list[EpDevice] = []
    notes = list(found.notes)
    reasons: list[NothingOffered] = []
    for factory in found.factories:
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
        factories=tuple(factory.for_machine(machine.os, None) for factory in found.factories),
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
    """What a factory offers.

    ExecutionProviderError where it, as a plug-in may, returns something else.
    """
    if not isinstance(offered, list | tuple):
        offered = [offered]
    for each in offered:
        if not _is_own_offer(factory, each):
            raise ExecutionProviderError(
                f"{factory.ep_name} ({factory.backend}) reported {quoted(each)} where an EpDevice"
                " of its own name and backend belongs",
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
            each.ep_name == factory.ep_name and each.device is not None
            for each in profile.ep_devices
        )
    )


def _own_unasked(profile: MachineProfile, named: Collection[str]) -> list[EpDevice]:
    """The EP devices of our own EPs that are there because somebody names them."""
    engines = [
        each
        for each in profile.ep_devices
        if each.ep_name == CPU_EP and each.backend == "embedded" and each.device is not None
    ]
    there = {each.ep_name for each in profile.ep_devices}
    wanted = sorted({*map(resolve_ep_name, named)} & NAMED_FACTORIES.keys() - there)
    machine = profile.machine
    return [
        replace(each, ep_version=engines[0].ep_version)
        for name in wanted
        if engines
        for each in NAMED_FACTORIES[name]()
        .for_machine(machine.os, profile.software)
        .get_supported_devices(machine.hardware)
    ]


def offer_of_profile(profile: MachineProfile, *, named: Collection[str] = ()) -> MachineOffer:
    """What the machine of a profile offers: its EP devices, exactly as the profile has them.

    Where ortpkg's embedded engine is among them, so are those of our own EPs that are ``named`` and
    that no machine offers unasked: they are wherever ortpkg is.

    A compatibility string is rated by a factory that is installed here only where that is the same
    EP, on the same backend in the same version; otherwise its rating is COMPATIBILITY_UNKNOWN. No
    plug-in is imported.
    """
    unasked = _own_unasked(profile, named)
    ep_devices = (*profile.ep_devices, *unasked) if unasked else profile.ep_devices
    wanted = dict.fromkeys((each.ep_name, each.backend, each.ep_version) for each in ep_devices)
    found = [
        installed_factory(ep_name, backend=backend, version=version)
        for ep_name, backend, version in wanted
    ]
    for factory in found:
        if factory is not None and _rates_known_devices(factory, profile):
            # onnxruntime rates only for devices that it has here; this tells which of the profile's
            # are such.
            with contextlib.suppress(ExecutionProviderError):
                factory.get_supported_devices(profile.machine.hardware)
    return MachineOffer(
        machine=profile.machine,
        ep_devices=ep_devices,
        factories=tuple(
            factory.for_machine(profile.machine.os, profile.software)
            for factory in found
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
