"""Requests of selections: the caller's criteria, checked, with the machine's devices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ortpkg.foundations.documents.frozen import EMPTY
from ortpkg.foundations.ep_names import ep_named
from ortpkg.foundations.errors import UnknownBackendError, UsageError, quoted
from ortpkg.foundations.names import did_you_mean
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.policies import Policy, find_policy, policy_named
from ortpkg.package.formats.variants import alike
from ortpkg.package.package_info import ComponentInfo, VariantInfo
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.selection.matching.provider_option_wishes import provider_options_by_ep
from ortpkg.selection.matching.ranking import order_devices
from ortpkg.selection.matching.wished_limits import NO_LIMITS, Limits, check_where_keys, limits_of
from ortpkg.selection.matching.wishes import SelectionWishes

if TYPE_CHECKING:
    from ortpkg.selection.matching.measurements import SelectionRecords
    from ortpkg.selection.matching.operators import OperatorEvidence

DistanceOf = Callable[[EpDevice, str], int]
RefusalOf = Callable[[EpDevice, str], str]
WhyNot = Callable[[VariantInfo], str]
CompatibilityOf = Callable[[EpDevice, str], CompiledModelCompatibility]


class SelectionRequest(NamedTuple):
    """Checked criteria of a selection, the same for every variant.

    Attributes:
        policy: the order of preference.
        ep_devices: EP devices that are offered, in the policy's order.
        hardware: devices of the machine, for reasons and for EPs that report no devices.
        compatibility: returns an EP's rating of a compatibility string; if it raises, the string
            counts as not applicable.
        device, ep: filters; the EP by its full name.
        backend: filter by backend of EP devices; None for all.
        check_architecture: True to evaluate architecture constraints too.
        provider_options: EP → options that the caller gives it.
        limits: limits that a variant must keep.
        sizes: variant → bytes of its files, for those that the package does not record.
        records: measurements and failures on this machine.
        machine: name of the machine profile; "" for this machine.
        notes: what discovery could not find out; becomes warnings.
        probed_memory: see :class:`~ortpkg.runtime.providers.machine_offer.MachineOffer`.
        operators: unusual operators that models need, and those that EP devices have; None to
            ignore them.
        package_version: version of variants that state none of their own.
        compiled_distance: returns how far an EP device is ahead of the one that a compatibility
            string is for, as its EP sees it.
        compiled_refusal: returns the reason why an EP device does not run a compiled variant, or
            would rather have it compiled anew; "" if its EP gives none.
        includes_absent: True to include variants of a sparse package whose files are absent.
        why_refused: returns the reason why a session would refuse a compiled variant's native code;
            "" if it would not.
        is_narrowed: True if only some of the component's variants are judged, on request.
        why_stale: returns how a variant's source differs from the model that it was made of; "" if
            it does not.
    """

    policy: Policy
    ep_devices: tuple[EpDevice, ...]
    hardware: tuple[HardwareDevice, ...]
    compatibility: CompatibilityOf
    device: DeviceType | None = None
    ep: str | None = None
    backend: str | None = None
    check_architecture: bool = False
    provider_options: Mapping[str, Mapping[str, str]] = EMPTY
    limits: Limits = NO_LIMITS
    sizes: Mapping[str, int] = EMPTY
    records: SelectionRecords | None = None
    machine: str = ""
    notes: tuple[str, ...] = ()
    probed_memory: Collection[HardwareDevice] = ()
    operators: OperatorEvidence | None = None
    package_version: str | None = None
    compiled_distance: DistanceOf = lambda _ep_device, _info: 0
    compiled_refusal: RefusalOf = lambda _ep_device, _info: ""
    includes_absent: bool = False
    why_stale: WhyNot = lambda _variant: ""
    why_refused: WhyNot = lambda _variant: ""
    is_narrowed: bool = False

    def has_ep(self, name: str) -> bool:
        """Return True if the EP of this full name offers a device here."""
        return any(ep_device.ep_name == name for ep_device in self.ep_devices)

    def has_hardware(self, device: str) -> bool:
        """Return True if the system or an EP knows such a device."""
        devices = [
            *self.hardware,
            *(ep_device.device for ep_device in self.ep_devices if ep_device.device is not None),
        ]
        return any(hardware.type.value == device for hardware in devices)


def make_request(
    component: ComponentInfo,
    ep_devices: Iterable[EpDevice],
    wishes: SelectionWishes,
    *,
    hardware: Sequence[HardwareDevice],
    compatibility: CompatibilityOf,
    notes: Sequence[str] = (),
    known_eps: Collection[str] = (),
    sizes: Mapping[str, int] = EMPTY,
    records: SelectionRecords | None = None,
    machine: str = "",
    probed_memory: Collection[HardwareDevice] = (),
    operators: OperatorEvidence | None = None,
    package_version: str | None = None,
    compiled_distance: DistanceOf = lambda _ep_device, _info: 0,
    compiled_refusal: RefusalOf = lambda _ep_device, _info: "",
    why_stale: WhyNot = lambda _variant: "",
    why_refused: WhyNot = lambda _variant: "",
    is_narrowed: bool = False,
) -> SelectionRequest:
    """Return the request for a caller's wishes on a machine.

    The order of ``ep_devices`` does not matter. They, and the component, may name EPs that ONNX
    Runtime does not know. For the other arguments see :class:`SelectionRequest`.

    Raises:
        UsageError: an unknown policy, device, EP or backend, options whose EP is unclear, an
            invalid limit, or metadata that no variant has.
    """
    policy, limits, eps = find_policy(wishes.policy), limits_of(wishes), wished_eps(wishes.ep)
    if len(eps) > 1:
        raise UsageError(f"policy {policy.name} takes one execution provider, not {len(eps)}")
    ordered = tuple(order_devices(ep_devices, policy, hardware))
    constrained = (like.constraints.ep for like in alike(component.variants))
    offered = (ep_device.ep_name for ep_device in ordered)
    named = {name for name in (*constrained, *offered, *known_eps) if name}
    ep = ep_named(eps[0], named) if eps else None
    if limits.where:
        check_where_keys(limits.where, component.variants, package_version=package_version)
    return SelectionRequest(
        policy=policy,
        ep_devices=ordered,
        hardware=tuple(hardware),
        compatibility=compatibility,
        device=None if wishes.device is None else parse_device_type(wishes.device),
        ep=ep,
        backend=None if wishes.backend == "auto" else backend_named(wishes.backend, ordered),
        check_architecture=wishes.check_architecture,
        provider_options=provider_options_by_ep(wishes.provider_options, ep=ep, named=named),
        limits=limits,
        sizes=sizes,
        records=records,
        machine=machine,
        notes=tuple(notes),
        probed_memory=probed_memory,
        operators=operators,
        package_version=package_version,
        compiled_distance=compiled_distance,
        compiled_refusal=compiled_refusal,
        includes_absent=wishes.include_absent,
        why_stale=why_stale,
        why_refused=why_refused,
        is_narrowed=is_narrowed,
    )


def wished_eps(ep: str | Sequence[str] | None) -> list[str]:
    """Return the EPs that a caller names: one, several, or none.

    UsageError if they are not strings.
    """
    names = [ep] if isinstance(ep, str) else ep or ()
    if not isinstance(names, Sequence):
        raise UsageError(f"ep is a text, or several in a list, not {quoted(ep)}")
    for name in names:
        _check_text("ep", name)
    return list(names)


def verify_wishes(wishes: SelectionWishes) -> None:
    """Raise UsageError for wishes that are wrong on any machine.

    These are a backend, policy, device or EP that is not a string, an unknown policy, and an
    invalid limit.
    """
    _check_text("backend", wishes.backend)
    _check_text("policy", wishes.policy)
    if wishes.device is not None:
        _check_text("device", wishes.device)
    policy_named(wishes.policy)
    wished_eps(wishes.ep)
    limits_of(wishes)


def _check_text(name: str, wish: object) -> None:
    if not isinstance(wish, str):
        raise UsageError(f"{name} is a text, not {quoted(wish)}")


def parse_device_type(text: str) -> DeviceType:
    """Return the device type with this name; UsageError with a list if it is unknown."""
    try:
        return DeviceType(text.lower())
    except ValueError:
        names = [device.value for device in DeviceType]
        hint = did_you_mean(text, names)
        raise UsageError(
            f"there is no device type {quoted(text)}{hint}; known are: {', '.join(names)}"
        ) from None


def backend_named(text: str, ep_devices: Iterable[EpDevice]) -> str:
    """Return ``text`` if it is one of our backends, available or not, or that of an EP device here.

    Raises:
        UnknownBackendError: an unknown name; the message lists the backends.
    """
    from ortpkg.runtime.providers.plugins import BUILT_IN_BACKENDS  # only if a backend is named

    names = list(
        dict.fromkeys(
            ("auto", *BUILT_IN_BACKENDS, *(ep_device.backend for ep_device in ep_devices))
        )
    )
    if text not in names:
        raise UnknownBackendError(
            f"there is no backend {quoted(text)}{did_you_mean(text, names)}; known are:"
            f" {', '.join(names)}",
            backend=text,
        )
    return text
