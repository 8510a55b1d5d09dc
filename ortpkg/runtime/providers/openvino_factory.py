"""Factory of OpenVINOExecutionProvider, on the ``openvino`` package's CPU, GPU and NPU.

The package's metadata tells whether it is installed; a child process asks its plug-ins for devices,
and the answer is remembered (``ortpkg.foundations.isolation``). Source of device names and
properties: OpenVINO's "Query Device Properties" guide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ortpkg.foundations.ep_names import OPENVINO_EP
from ortpkg.foundations.errors import ExecutionProviderError, quoted
from ortpkg.foundations.isolation.backend_probe import ProbeAnswer, ask_backend, asking_anew
from ortpkg.graph.needed_operators import ModelOperators, Operator
from ortpkg.machine.architecture import host_architecture
from ortpkg.machine.hardware import DeviceType, EpDevice, HardwareDevice
from ortpkg.machine.json_form import hardware_device_to_json
from ortpkg.machine.pci_vendors import INTEL
from ortpkg.runtime.providers.compatibility_info import rate_compatibility
from ortpkg.runtime.providers.device_matching import ReportedDevice, match_hardware
from ortpkg.runtime.providers.ep_factory import CompiledModelCompatibility, EpFactory
from ortpkg.runtime.providers.installed_distribution import (
    InstalledDistribution,
    find_distributions,
)
from ortpkg.runtime.providers.openvino_requirements import rate_info, requirements_of_info
from ortpkg.runtime.providers.operator_support import (
    OperatorSupport,
    native_support,
    read_operators,
)

if TYPE_CHECKING:
    from ortpkg.runtime.providers.execution_provider import ExecutionProvider

_FUNCTION = "ortpkg.runtime.providers.openvino_probe:list_devices"
_REQUIREMENTS_FUNCTION = "ortpkg.runtime.providers.openvino_probe:runtime_requirements"
_OPERATORS_FUNCTION = "ortpkg.runtime.providers.openvino_probe:missing_operators"
_WORST_FIRST = (
    CompiledModelCompatibility.UNSUPPORTED,
    CompiledModelCompatibility.UNKNOWN,
    CompiledModelCompatibility.NOT_APPLICABLE,
    CompiledModelCompatibility.OPTIMAL,
)
_TYPES = {"CPU": DeviceType.CPU, "GPU": DeviceType.GPU, "NPU": DeviceType.NPU}
_DEVICES = {device_type: name for name, device_type in _TYPES.items()}

#: Asks which operators a library lacks; takes the arguments of ``missing_operators`` and what the
#: answer depends on.
AskOperators = Callable[[Mapping[str, Any], Mapping[str, object]], ProbeAnswer]
#: Asks OpenVINO what its compiled models need; takes the device and what the answer depends on.
AskRequirements = Callable[[str, Mapping[str, object]], ProbeAnswer]
#: Asks OpenVINO for its devices; takes the fingerprint that the answer depends on.
Ask = Callable[[Mapping[str, object]], ProbeAnswer]


def _ask_in_child(fingerprint: Mapping[str, object]) -> ProbeAnswer:
    return ask_backend(_FUNCTION, {}, fingerprint=fingerprint)


def _ask_operators_in_child(
    arguments: Mapping[str, Any], fingerprint: Mapping[str, object]
) -> ProbeAnswer:
    return ask_backend(_OPERATORS_FUNCTION, arguments, fingerprint=fingerprint)


def _ask_requirements_in_child(device: str, fingerprint: Mapping[str, object]) -> ProbeAnswer:
    return ask_backend(_REQUIREMENTS_FUNCTION, {"device": device}, fingerprint=fingerprint)


class OpenVinoEpFactory(EpFactory):
    """Factory of OpenVINOExecutionProvider on the ``openvino`` package.

    Args:
        ask: asks OpenVINO for its devices; tests pass the answer of some machine.
        ask_operators: asks it which operators it lacks.
        ask_requirements: asks it what its compiled models need.
    """

    ep_name = OPENVINO_EP
    vendor = "Intel"
    backend = "openvino"

    def __init__(
        self,
        ask: Ask = _ask_in_child,
        ask_operators: AskOperators = _ask_operators_in_child,
        ask_requirements: AskRequirements = _ask_requirements_in_child,
    ) -> None:
        self._ask = ask
        self._ask_operators = ask_operators
        self._ask_requirements = ask_requirements

    @cached_property
    def _distribution(self) -> InstalledDistribution | None:
        return next(iter(find_distributions("openvino", ("openvino",))), None)

    @property
    def version(self) -> str:
        return self._distribution.version if self._distribution else ""

    def is_available(self) -> bool:
        return self._distribution is not None

    def get_supported_devices(self, hardware: Sequence[HardwareDevice]) -> list[EpDevice]:
        """Return one EP device per device of OpenVINO; ``ep_options`` names it ("GPU.1").

        Raises:
            ExecutionProviderError: OpenVINO crashed, hung or failed.
        """
        entries = self._ask(self._fingerprint(hardware)).require(self.ep_name)
        counts: dict[DeviceType, int] = {}
        ep_devices = []
        for entry in entries if isinstance(entries, list) else []:
            device_type = (
                _TYPES.get(str(entry.get("id", "")).partition(".")[0])
                if isinstance(entry, dict)
                else None
            )
            if device_type is not None:
                ordinal = counts.get(device_type, 0)
                counts[device_type] = ordinal + 1
                ep_devices.append(self._ep_device(entry, device_type, ordinal, hardware))
        return ep_devices

    def validate_compiled_model_compatibility_info(
        self, devices: Sequence[HardwareDevice], info: str
    ) -> CompiledModelCompatibility:
        """Rate ``ortpkg.runtime.providers.compatibility_info``: only its own release loads a blob.

        Strings of onnxruntime's OpenVINO EP are rated as by that EP, from what compiled models need
        here; OpenVINO is asked in a child process, and its answer is remembered.

        Raises:
            ExecutionProviderError: OpenVINO crashed, hung or failed over that.
        """
        if requirements_of_info(info) is None:
            return rate_compatibility(
                devices, info, backend=self.backend, version=self.version, takes_patches=False
            )
        ratings = {rate_info(info, None)}
        if CompiledModelCompatibility.UNKNOWN in ratings:
            ratings = {
                rate_info(info, self._requirements(device.type)) for device in devices
            } or ratings
        return next(rating for rating in _WORST_FIRST if rating in ratings)

    def _requirements(self, device_type: DeviceType) -> str | None:
        """Return what a model needs that is compiled here for a type of device.

        None if OpenVINO does not say.
        """
        fingerprint = {"openvino": self.version, "architecture": host_architecture()}
        requirements = self._ask_requirements(_DEVICES[device_type], fingerprint).require(
            self.ep_name
        )
        return str(requirements) or None

    def operator_support(self, needed: ModelOperators) -> OperatorSupport:
        return native_support(
            needed, ep_name=self.ep_name, ask=self._missing_operators, goes_by_opset=False
        )

    def _missing_operators(self, operators: Sequence[Operator]) -> Iterable[Operator]:
        arguments = {"operators": [list(operator) for operator in operators]}
        return read_operators(
            self._ask_operators(arguments, {"openvino": self.version}).require(self.ep_name)
        )

    def _ep_device(
        self,
        entry: Mapping[str, Any],
        device_type: DeviceType,
        ordinal: int,
        hardware: Sequence[HardwareDevice],
    ) -> EpDevice:
        kind = entry.get("DEVICE_TYPE")
        memory = entry.get("GPU_DEVICE_TOTAL_MEM_SIZE")
        is_gpu = device_type is DeviceType.GPU
        reported = ReportedDevice(
            type=device_type,
            source="openvino",
            name=str(entry.get("FULL_DEVICE_NAME", "")),
            vendor=self.vendor,
            vendor_id=INTEL,  # OpenVINO's GPU and NPU plug-ins drive Intel's devices only
            pci_address=str(entry.get("DEVICE_PCI_INFO", "")),
            is_discrete=kind == "discrete" if is_gpu and kind is not None else None,
            # An integrated GPU reports the machine's memory, which is not its own.
            memory_nbytes=memory
            if is_gpu and kind == "discrete" and isinstance(memory, int)
            else None,
            ordinal=ordinal,
        )
        device_id = str(entry["id"])
        keys = ("FULL_DEVICE_NAME", "DEVICE_ARCHITECTURE", "NPU_DRIVER_VERSION")
        return EpDevice(
            ep_name=self.ep_name,
            device=match_hardware(reported, hardware),
            ep_vendor=self.vendor,
            ep_version=self.version,
            backend=self.backend,
            ep_metadata={key.lower(): str(entry[key]) for key in keys if key in entry},
            ep_options={"device_type": device_id},
        )

    def _fingerprint(self, hardware: Sequence[HardwareDevice]) -> dict[str, object]:
        return {
            "openvino": self.version,
            "hardware": [hardware_device_to_json(device) for device in hardware],
        }

    def has_device(self, ep_device: EpDevice, hardware: Sequence[HardwareDevice]) -> bool:
        with asking_anew():
            entries = self._ask(self._fingerprint(hardware)).require(self.ep_name)
        names = (
            {str(entry.get("id", "")) for entry in entries if isinstance(entry, dict)}
            if isinstance(entries, list)
            else ()
        )
        return ep_device.ep_options.get("device_type", "") in names

    def create(self, devices: Sequence[EpDevice], options: Mapping[str, str]) -> ExecutionProvider:
        try:
            # openvino is loaded only when a session is made.
            from ortpkg.runtime.providers.openvino_execution_provider import (
                OpenVINOExecutionProvider,
            )
        except Exception as error:  # a damaged installation raises more than ImportError
            raise ExecutionProviderError(
                f"the library openvino cannot be loaded: {quoted(error)}", ep_name=self.ep_name
            ) from error
        return OpenVINOExecutionProvider(ep_devices=devices, options=options)
