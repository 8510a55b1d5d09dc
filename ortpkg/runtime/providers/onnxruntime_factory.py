"""Bridge to an installed onnxruntime: one factory for each of its execution providers.

A child process asks a build for its providers, and the answer is remembered. A provider that
onnxruntime lists without EP devices (a provider-bridge EP) reports no devices here either, so that
device rules are skipped as upstream does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import ExecutionProviderError, quoted
from ortpkg.foundations.isolation.backend_probe import ProbeAnswer, ask_backend, asking_anew
from ortpkg.graph.needed_operators import ModelOperators, Operator
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.implied_device_types import IMPLIED_DEVICE_TYPES, IMPLIED_VENDORS
from ortpkg.machine.json_form import hardware_device_to_json
from ortpkg.runtime.providers.compatibility_info import is_own_text, rate_compatibility
from ortpkg.runtime.providers.device_matching import ReportedDevice, match_hardware
from ortpkg.runtime.providers.ep_discovery.ep_libraries import NO_DEVICE, distributions_of_libraries
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility, EpFactory
from ortpkg.runtime.providers.installed_distribution import (
    InstalledDistribution,
    find_distributions,
)
from ortpkg.runtime.providers.nvidia_libraries import is_built_for_cuda, nvidia_fingerprint
from ortpkg.runtime.providers.operator_support import (
    OperatorSupport,
    native_support,
    read_operators,
)

if TYPE_CHECKING:
    from ortpkg.runtime.providers.execution_provider import ExecutionProvider

_FUNCTION = "ortpkg.runtime.providers.onnxruntime_probe:list_offers"
_RATE_FUNCTION = "ortpkg.runtime.providers.onnxruntime_probe:rate_compatibility"
_OPERATORS_FUNCTION = "ortpkg.runtime.providers.onnxruntime_probe:missing_operators"
#: Most characters of a compatibility string; no EP writes longer ones.
MOST_INFO_CHARACTERS = 1 << 16
_TYPES = {"cpu": DeviceType.CPU, "gpu": DeviceType.GPU, "npu": DeviceType.NPU}
#: Distributions that install the module ``onnxruntime``; two of them in one environment overwrite
#: each other. Later releases of some (onnxruntime-qnn 2) bring only a library for it, and do not
#: count (``ep_libraries``).
DISTRIBUTIONS: tuple[str, ...] = (
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-directml",
    "onnxruntime-openvino",
    "onnxruntime-qnn",
    "onnxruntime-rocm",
    "onnxruntime-migraphx",
    "onnxruntime-cann",
    "onnxruntime-vitisai",
    "onnxruntime-webgpu",
    "onnxruntime-windowsml",
    "onnxruntime-training",
    "ort-nightly",
    "ort-nightly-gpu",
    "ort-nightly-directml",
)

Ask = Callable[[Mapping[str, object]], ProbeAnswer]
#: Asks for a rating, or for missing operators; takes the arguments of the probe's function and the
#: fingerprint that the answer depends on.
AskRating = Callable[[Mapping[str, Any], Mapping[str, object]], ProbeAnswer]


def _ask_in_child(fingerprint: Mapping[str, object]) -> ProbeAnswer:
    return ask_backend(_FUNCTION, {}, fingerprint=fingerprint)


def _rate_in_child(arguments: Mapping[str, Any], fingerprint: Mapping[str, object]) -> ProbeAnswer:
    return ask_backend(_RATE_FUNCTION, arguments, fingerprint=fingerprint)


def _ask_operators_in_child(
    arguments: Mapping[str, Any], fingerprint: Mapping[str, object]
) -> ProbeAnswer:
    return ask_backend(_OPERATORS_FUNCTION, arguments, fingerprint=fingerprint)


class OnnxRuntimeEpFactory(EpFactory):
    """One execution provider of the installed onnxruntime.

    Args:
        ep_name: name of the execution provider.
        ask: asks onnxruntime for what it offers; tests pass the answer of some build.
        ask_rating: asks it to rate a compatibility string.
        ask_operators: asks it which operators it lacks.
    """

    backend = "onnxruntime"
    vendor = "Microsoft"

    def __init__(
        self,
        ep_name: str,
        ask: Ask = _ask_in_child,
        ask_rating: AskRating = _rate_in_child,
        ask_operators: AskRating = _ask_operators_in_child,
    ) -> None:
        self.ep_name = ep_name
        self._ask = ask
        self._ask_rating = ask_rating
        self._ask_operators = ask_operators
        #: Hardware that was asked about last, and the device of each of onnxruntime's EP devices.
        self._reported: tuple[Sequence[HardwareDevice], list[HardwareDevice]] = ((), [])
        self._offer_note = self._unusable_note = ""

    @property
    def offer_note(self) -> str:
        return self._offer_note

    @property
    def nothing_offered_note(self) -> str:
        is_for_one_vendor = self.ep_name in IMPLIED_VENDORS
        no_device = f"{self._name_for_people} {NO_DEVICE}" if is_for_one_vendor else ""
        return self._unusable_note or no_device

    @property
    def version(self) -> str:
        return installed_version()

    def is_available(self) -> bool:
        """Return True if an onnxruntime is installed; its providers are known only by asking it."""
        return bool(installed_distributions())

    def get_supported_devices(self, hardware: Sequence[HardwareDevice]) -> list[EpDevice]:
        """Return one EP device per device that onnxruntime reports for the provider.

        A provider without devices of its own has one without device, or none at all if the machine
        lacks the kind of device that its name implies (a CUDA build on a machine without GPU lists
        the provider all the same). There are none if onnxruntime leaves the provider out of
        sessions: ``nothing_offered_note`` says why, if a device for it is here.

        Raises:
            ExecutionProviderError: onnxruntime crashed, hung or failed.
        """
        offers = _offers(self._ask, hardware, self.ep_name)
        if self.ep_name not in offers.providers:
            return []
        if reason := offers.unusable.get(self.ep_name, ""):
            is_missed = self._has_implied_device(hardware)
            unusable = f"{self._name_for_people} cannot run here: {reason}"
            self._unusable_note = unusable if is_missed else ""
            return []
        note = offers.notes.get(self.ep_name, "")
        self._offer_note = f"{self._name_for_people}: {note}" if note else ""
        reported = [entry for entry in offers.ep_devices if entry.get("ep_name") == self.ep_name]
        if reported:
            devices = [match_hardware(_reported(entry, reported), hardware) for entry in reported]
            self._reported = (hardware, devices)
            return [
                self._ep_device(entry, device)
                for entry, device in zip(reported, devices, strict=True)
            ]
        implied = IMPLIED_DEVICE_TYPES.get(self.ep_name)
        if implied is not None and all(device.type is not implied for device in hardware):
            return []
        return [self._ep_device({}, None)]

    def _has_implied_device(self, hardware: Sequence[HardwareDevice]) -> bool:
        """Return True if a device may be here that the provider is for."""
        implied, vendor = IMPLIED_DEVICE_TYPES.get(self.ep_name), IMPLIED_VENDORS.get(self.ep_name)
        return any(
            (implied is None or device.type is implied)
            and (vendor is None or device.vendor == vendor)
            for device in hardware
        )

    @property
    def _name_for_people(self) -> str:
        distribution = next(iter(installed_distributions()), None)
        name = distribution.name if distribution else "onnxruntime"
        return f"{self.ep_name} ({' '.join(filter(None, (name, self.version)))})"

    def validate_compiled_model_compatibility_info(
        self, devices: Sequence[HardwareDevice], info: str
    ) -> CompiledModelCompatibility:
        """Rate our own contexts; onnxruntime rates those of others.

        onnxruntime is asked in a child process; its answer is remembered per string and device.
        NOT_APPLICABLE for the CPU provider and for providers without devices, which rate nothing;
        UNKNOWN for devices that this onnxruntime does not report, and for builds that cannot be
        asked.

        Raises:
            ExecutionProviderError: onnxruntime crashed, hung or failed over the string.
        """
        if is_own_text(info, self.backend):
            return rate_compatibility(
                devices, info, backend=self.backend, version=self.version, takes_patches=True
            )
        if self.ep_name == CPU_EP or not devices:
            return CompiledModelCompatibility.NOT_APPLICABLE
        hardware, reported = self._reported
        if any(device not in reported for device in devices) or len(info) > MOST_INFO_CHARACTERS:
            return CompiledModelCompatibility.UNKNOWN
        arguments = {
            "ep_name": self.ep_name,
            "positions": [reported.index(device) for device in devices],
            "info": info,
        }
        rating = self._ask_rating(arguments, _fingerprint(hardware)).require(self.ep_name)
        ratings = {member.value: member for member in CompiledModelCompatibility}
        return ratings.get(str(rating), CompiledModelCompatibility.UNKNOWN)

    def operator_support(self, needed: ModelOperators) -> OperatorSupport:
        return native_support(needed, ep_name=self.ep_name, ask=self._missing_operators)

    def _missing_operators(self, operators: Sequence[Operator]) -> Iterable[Operator]:
        arguments = {
            "ep_name": self.ep_name,
            "operators": [list(operator) for operator in operators],
        }
        answer = self._ask_operators(arguments, {"distributions": _distributions()})
        return read_operators(answer.require(self.ep_name))

    def _ep_device(self, entry: Mapping[str, Any], device: HardwareDevice | None) -> EpDevice:
        return EpDevice(
            ep_name=self.ep_name,
            device=device,
            ep_vendor=str(entry.get("ep_vendor", self.vendor)),
            ep_version=self.version,
            backend=self.backend,
            ep_metadata=_strings(entry.get("ep_metadata")),
            ep_options=_strings(entry.get("ep_options")),
        )

    def has_device(self, ep_device: EpDevice, hardware: Sequence[HardwareDevice]) -> bool:
        with asking_anew():
            offers = _offers(self._ask, hardware, self.ep_name)
        if ep_device.device is None:
            return self.ep_name in offers.providers
        return any(
            (entry.get("ep_name"), entry.get("type")) == (self.ep_name, ep_device.device.type.value)
            and _strings(entry.get("ep_options")) == ep_device.ep_options
            for entry in offers.ep_devices
        )

    def create(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> ExecutionProvider:
        try:
            # onnxruntime is loaded only when a session is made.
            from ortpkg.runtime.providers.onnxruntime_execution_provider import (
                OnnxRuntimeExecutionProvider,
            )
        except Exception as error:  # a damaged installation raises more than ImportError
            raise ExecutionProviderError(
                f"the library onnxruntime cannot be loaded: {quoted(error)}", ep_name=self.ep_name
            ) from error
        return OnnxRuntimeExecutionProvider(self.ep_name, ep_devices=devices, options=options)


@cache
def installed_distributions() -> tuple[InstalledDistribution, ...]:
    """Return every installed distribution that provides the module.

    More than one is a mistake of the environment.
    """
    distributions = find_distributions("onnxruntime", DISTRIBUTIONS)
    if all(distribution.name == DISTRIBUTIONS[0] for distribution in distributions):
        return distributions
    libraries = distributions_of_libraries()  # these bring another module
    return find_distributions(
        "onnxruntime", [name for name in DISTRIBUTIONS if name not in libraries]
    )


def installed_version() -> str:
    """Return the version of the (first) installed onnxruntime; "" if there is none."""
    distributions = installed_distributions()
    return distributions[0].version if distributions else ""


def list_ep_names(hardware: Sequence[HardwareDevice], ask: Ask = _ask_in_child) -> tuple[str, ...]:
    """Return the execution providers of the installed onnxruntime in its order.

    Empty if none is installed.

    Raises:
        ExecutionProviderError: onnxruntime crashed, hung or failed.
    """
    return _offers(ask, hardware, "onnxruntime").providers if installed_distributions() else ()


class _Offers(NamedTuple):
    providers: tuple[str, ...]
    ep_devices: tuple[Mapping[str, Any], ...]
    unusable: Mapping[str, str]
    notes: Mapping[str, str]


def _offers(ask: Ask, hardware: Sequence[HardwareDevice], ep_name: str) -> _Offers:
    """Return onnxruntime's answer, as far as it has the expected form."""
    answer = ask(_fingerprint(hardware)).require(ep_name)
    answer = answer if isinstance(answer, dict) else {}
    providers, ep_devices = answer.get("providers"), answer.get("ep_devices")
    return _Offers(
        providers=tuple(str(name) for name in providers) if isinstance(providers, list) else (),
        ep_devices=tuple(e for e in ep_devices if isinstance(e, dict) and e.get("type") in _TYPES)
        if isinstance(ep_devices, list)
        else (),
        unusable=_strings(answer.get("unusable")),
        notes=_strings(answer.get("notes")),
    )


def _fingerprint(hardware: Sequence[HardwareDevice]) -> dict[str, object]:
    """Return everything that onnxruntime's answers depend on."""
    return {
        "distributions": _distributions(),
        "hardware": [hardware_device_to_json(device) for device in hardware],
        **({"nvidia": nvidia_fingerprint()} if is_built_for_cuda() else {}),
    }


def _distributions() -> list[list[str]]:
    return [[distribution.name, distribution.version] for distribution in installed_distributions()]


def _reported(entry: Mapping[str, Any], siblings: Sequence[Mapping[str, Any]]) -> ReportedDevice:
    """Return the device of one EP device.

    Its ordinal counts the EP's devices of the same type and vendor before it.
    """
    kind = (entry.get("type"), entry.get("vendor_id"))
    before = siblings[: next(i for i, sibling in enumerate(siblings) if sibling is entry)]
    metadata = _strings(entry.get("metadata"))
    return ReportedDevice(
        type=_TYPES[entry["type"]],
        source="onnxruntime",
        name=str(entry.get("name", "")),
        vendor=str(entry.get("vendor", "")),
        vendor_id=_number(entry.get("vendor_id")),
        device_id=_number(entry.get("device_id")),
        pci_address=metadata.get("pci_bus_id", ""),
        is_discrete={"1": True, "0": False}.get(metadata.get("Discrete", "")),
        memory_nbytes=_number(entry.get("memory_nbytes")) or None,
        ordinal=sum((sibling.get("type"), sibling.get("vendor_id")) == kind for sibling in before),
        metadata=metadata,
    )


def _strings(items: object) -> dict[str, str]:
    return (
        {str(key): str(value) for key, value in items.items()} if isinstance(items, Mapping) else {}
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
