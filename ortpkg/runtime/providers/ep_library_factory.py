"""Factory of an EP in a library for onnxruntime (``ep_libraries``).

A child process registers the library before this one loads it; its answer is remembered like that
of any backend. An emulated device is offered only if it is asked for by name, and says that it is
emulated (ADR 17).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ortpkg.foundations.errors import ExecutionProviderError
from ortpkg.foundations.isolation.backend_probe import ProbeAnswer, ask_backend
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.runtime.providers.absent_devices import rate_for_absent
from ortpkg.runtime.providers.compatibility_info import is_own_text
from ortpkg.runtime.providers.ep_discovery.ep_libraries import (
    NO_DEVICE,
    Emulation,
    EpLibrary,
    emulation_note,
    is_emulation_asked_for,
)
from ortpkg.runtime.providers.ep_discovery.library_refusals import (
    REFUSALS,
    refusal_of,
    refusal_sentence,
)
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility
from ortpkg.runtime.providers.onnxruntime_factory import MOST_INFO_CHARACTERS, OnnxRuntimeEpFactory

if TYPE_CHECKING:
    from ortpkg.runtime.providers.execution_provider import ExecutionProvider

_OFFERS_FUNCTION = "ortpkg.runtime.providers.onnxruntime_probe:list_library_offers"
_RATE_FUNCTION = "ortpkg.runtime.providers.onnxruntime_probe:rate_compatibility"
#: Key in an EP device's metadata; its value is the device that really computes.
EMULATED = "emulated"


class EpLibraryFactory(OnnxRuntimeEpFactory):
    """One execution provider of a library for onnxruntime.

    Its version is that of the wheel that brings the library.
    """

    def __init__(self, library: EpLibrary) -> None:
        super().__init__(library.ep_name, self._ask_library, self._rate_by_library)
        self._library = library

    @property
    def version(self) -> str:
        return self._library.version

    @property
    def missing_device_note(self) -> str:
        """Reason why it offers nothing though it could emulate a device; "" in any other case."""
        emulation = self._library.emulation
        is_left_out = emulation is not None and not is_emulation_asked_for(self.ep_name)
        return (
            emulation_note(self._library, emulation)
            if emulation is not None and is_left_out
            else ""
        )

    @property
    def nothing_offered_note(self) -> str:
        return self.missing_device_note or f"{self.ep_name} ({self._library}) {NO_DEVICE}"

    def get_supported_devices(self, hardware: Sequence[HardwareDevice]) -> list[EpDevice]:
        """Return the devices that the library reports.

        A library that only emulates offers that device if it is asked for by name, else none.
        """
        reported = super().get_supported_devices(hardware)
        emulation = self._library.emulation
        if emulation is None:
            return reported
        if not is_emulation_asked_for(self.ep_name):
            return []
        played = [
            _emulated(ep_device, emulation, self._library)
            for ep_device in reported
            if _runs_on_cpu(ep_device)
        ][:1]
        self._reported = (
            hardware,
            [ep_device.device for ep_device in played if ep_device.device is not None],
        )
        return played

    def validate_compiled_model_compatibility_info(
        self, devices: Sequence[HardwareDevice], info: str
    ) -> CompiledModelCompatibility:
        """Rate a string as any onnxruntime does.

        NOT_APPLICABLE on an emulated device, for which libraries rate nothing.
        """
        if any(EMULATED in device.metadata for device in devices) and not is_own_text(
            info, self.backend
        ):
            return CompiledModelCompatibility.NOT_APPLICABLE
        rating = super().validate_compiled_model_compatibility_info(devices, info)
        if rating is CompiledModelCompatibility.UNKNOWN and len(devices) == 1:
            return self._rate_elsewhere(devices[0], info)
        return rating

    def _rate_elsewhere(self, device: HardwareDevice, info: str) -> CompiledModelCompatibility:
        """Return a rating for a device that is not here, if the library can compile for it."""
        if len(info) > MOST_INFO_CHARACTERS or device in self._reported[1]:
            return CompiledModelCompatibility.UNKNOWN
        with contextlib.suppress(ExecutionProviderError):
            return rate_for_absent(self._library, device, info)
        return CompiledModelCompatibility.UNKNOWN

    def has_device(self, ep_device: EpDevice, hardware: Sequence[HardwareDevice]) -> bool:
        return EMULATED in ep_device.ep_metadata or super().has_device(ep_device, hardware)

    def create(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> ExecutionProvider:
        if note := self.missing_device_note:
            raise ExecutionProviderError(note, ep_name=self.ep_name)
        return super().create(devices, options)

    def _ask_library(self, fingerprint: Mapping[str, object]) -> ProbeAnswer:
        answer = ask_backend(
            _OFFERS_FUNCTION,
            self._library.arguments(),
            fingerprint={**fingerprint, **self._library.fingerprint()},
            refusals=REFUSALS,
        )
        name = self._library.with_all_eps
        if reason := refusal_of(answer.value):
            raise ExecutionProviderError(refusal_sentence(name, reason), ep_name=self.ep_name)
        if answer.failure:
            raise ExecutionProviderError(
                f"the library behind {name} failed: {answer.failure}", ep_name=self.ep_name
            )
        return answer

    def _rate_by_library(
        self, arguments: Mapping[str, Any], fingerprint: Mapping[str, object]
    ) -> ProbeAnswer:
        return ask_backend(
            _RATE_FUNCTION,
            {**self._library.arguments(), **arguments},
            fingerprint={**fingerprint, **self._library.fingerprint()},
        )


def _runs_on_cpu(ep_device: EpDevice) -> bool:
    return ep_device.device is not None and ep_device.device.type is DeviceType.CPU


def _emulated(ep_device: EpDevice, emulation: Emulation, library: EpLibrary) -> EpDevice:
    """Return the emulated device for ``ep_device``, which is the CPU."""
    return replace(
        ep_device,
        device=HardwareDevice(
            type=emulation.type,
            name=emulation.name,
            vendor=ep_device.ep_vendor,
            architecture=emulation.architecture,
            metadata={EMULATED: "on the CPU"},
            source=f"emulated by {library}",
        ),
        ep_metadata={**ep_device.ep_metadata, EMULATED: "on the CPU"},
        ep_options={**ep_device.ep_options, **dict(emulation.options)},
    )
