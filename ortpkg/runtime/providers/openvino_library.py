"""Native library OpenVINO: compiles with its CPU, GPU or NPU plug-in, and keeps blobs.

Precision: OpenVINO's CPU plug-in computes in bfloat16 by default if the CPU has it (errors of
1e-2); here it computes in float32 unless the option ``precision`` says otherwise. Option names are
those of ONNX Runtime's OpenVINO execution provider.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ortpkg.foundations.documents.load_config import LOAD_CONFIG, read_load_config
from ortpkg.foundations.ep_names import OPENVINO_EP
from ortpkg.foundations.errors import InvalidSessionOptionError, quoted
from ortpkg.foundations.isolation.run_watch import WatchedRun, run_watched
from ortpkg.machine.architecture import host_architecture
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.ep_context.ep_context_checks import PartsFile
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.runtime.providers.execution_provider import BackendPlacement
from ortpkg.runtime.providers.native_library import (
    CompiledModel,
    GroupLibrary,
    GroupParts,
    NativeModel,
    Part,
    read_signature,
    required_part,
    signature_part,
)
from ortpkg.runtime.providers.openvino_core import new_core
from ortpkg.runtime.providers.openvino_device import openvino_device
from ortpkg.runtime.providers.openvino_group import (
    Ports,
    RequestPool,
    SharedCompiledModels,
    export_group,
    group_place,
    import_member,
)
from ortpkg.runtime.providers.openvino_memory import lent_array, port_of
from ortpkg.runtime.providers.openvino_reading import read_onnx
from ortpkg.runtime.providers.quiet_openvino import openvino
from ortpkg.runtime.providers.session_settings import SessionSettings

#: ONNX Runtime's option → OpenVINO's property.
_PROPERTIES: dict[str, str] = {
    "cache_dir": "CACHE_DIR",
    "model_priority": "MODEL_PRIORITY",
    "num_of_threads": "INFERENCE_NUM_THREADS",
    "num_streams": "NUM_STREAMS",
}
_PRECISIONS: dict[str, dict[str, str]] = {
    "FP32": {"INFERENCE_PRECISION_HINT": "f32"},
    "FP16": {"INFERENCE_PRECISION_HINT": "f16"},
    "ACCURACY": {"EXECUTION_MODE_HINT": "ACCURACY"},
}
_DEFAULT_PRECISION = "FP32"
#: Properties of the CPU plug-in unless another precision is asked for. In products with integer
#: weights (MatMulNBits) it rounds groups of 32 activations to 8 bits otherwise.
_DEFAULTS = {**_PRECISIONS[_DEFAULT_PRECISION], "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
_CPU = "CPU"
#: Operations that compute nothing.
_NO_OPERATIONS = frozenset({"Constant", "Parameter", "Result"})
_OWN_OPTIONS = ("device_type", LOAD_CONFIG, "precision")
#: Options that change the compiled model; others change how it runs, or where caches lie.
_COMPILED_OPTIONS = ("num_streams",)
_VIRTUAL_DEVICES = frozenset({"", "AUTO", "HETERO", "MULTI", "BATCH"})
_BLOB = "blob"
_WEIGHTS_PATH = "WEIGHTS_PATH"


class OpenVinoLibrary(GroupLibrary):
    """One OpenVINO device (or virtual device such as "AUTO:GPU,CPU").

    Raises:
        InvalidSessionOptionError: an option is unknown.
    """

    backend = "openvino"

    def __init__(
        self, *, ep_devices: Sequence[EpDevice] = (), options: Mapping[str, str] | None = None
    ) -> None:
        self._options = dict(options or {})
        self._device = openvino_device(ep_devices, self._options)
        self._properties = {**_properties_of(self._options), **self._loaded_config()}

    @functools.cached_property
    def _core(self) -> Any:
        core = new_core()
        precision = self._options.get("precision", _DEFAULT_PRECISION)
        if precision == _DEFAULT_PRECISION:
            # On the plug-in, so that it also holds where AUTO or HETERO choose the CPU, and for
            # models that were compiled before.
            core.set_property(_CPU, _DEFAULTS)
        return core

    def use_settings(self, settings: SessionSettings) -> None:
        """Give the session's threads to the CPU device, unless a provider option has a number."""
        super().use_settings(settings)
        threads = settings.values.get("intra_op_num_threads")
        if threads and self._device == _CPU:
            self._properties.setdefault(_PROPERTIES["num_of_threads"], str(threads))

    def unapplied(self, settings: SessionSettings) -> tuple[str, ...]:
        return self.traits.unapplied(settings, device=self._device)

    def compile_model(self, model: NativeModel) -> CompiledModel:
        read = read_onnx(self._core, model)
        compiled = self._core.compile_model(read, self._device, self._properties)
        counts = (
            _count_nodes(self._core, read, self._device)
            if self._device.startswith("HETERO")
            else {}
        )
        return _OpenVinoModel(
            compiled,
            _ports_of(compiled, model.inputs, model.outputs),
            self._device,
            counts,
            keeps=model.weights,
        )

    def export_model(self, compiled: CompiledModel, model: NativeModel) -> Mapping[str, Part]:
        assert isinstance(compiled, _OpenVinoModel)
        return {_BLOB: compiled.export(), **signature_part(model.inputs, model.outputs)}

    def import_model(
        self,
        parts: Mapping[str, Part],
        file: PartsFile | None = None,  # noqa: ARG002 - the parts are mapped already
    ) -> CompiledModel:
        inputs, outputs = read_signature(parts)
        # OpenVINO reads weights out of this memory, a mapped file as a rule, as long as the model
        # lives.
        blob = openvino.Tensor(lent_array(required_part(parts, _BLOB)), shared_memory=True)
        compiled = self._core.import_model(blob, self._device, self._properties)
        return _OpenVinoModel(
            compiled, _ports_of(compiled, inputs, outputs), self._device, {}, keeps=blob
        )

    @property
    def unshared_reason(self) -> str:
        if self._device != _CPU:
            return (
                "OpenVINO shares weights between models on its CPU device, and this is"
                f" {self._device}"
            )
        if _WEIGHTS_PATH not in self._core.get_property(_CPU, "SUPPORTED_PROPERTIES"):
            return f"OpenVINO {openvino.get_version()} has no {_WEIGHTS_PATH}"
        return ""

    def export_group(self, models: Sequence[NativeModel], weights_offset: int) -> GroupParts:
        return export_group(self._core, models, weights_offset, self._device, self._properties)

    def import_member(self, parts: Mapping[str, Part], file: PartsFile | None) -> CompiledModel:
        group, ports = import_member(self._core, parts, file, self._device, self._properties)
        return _OpenVinoModel(group.compiled, ports, self._device, {}, keeps=group)

    def group_place(self, parts: Mapping[str, Part]) -> Mapping[str, int]:
        return group_place(parts)

    def describe_environment(self) -> ContextDescriptor:
        options = {key: self._options[key] for key in _COMPILED_OPTIONS if key in self._options}
        options["precision"] = self._options.get("precision", _DEFAULT_PRECISION)
        config = self._loaded_config()
        if not config.items() <= _DEFAULTS.items():  # the defaults are set anyway
            options[LOAD_CONFIG] = json.dumps(config, sort_keys=True)
        return ContextDescriptor(
            ep=OPENVINO_EP,
            sdk_version=openvino.get_version(),
            device=self._device_text(),
            driver_version=self._first_property("NPU_DRIVER_VERSION", "GPU_DRIVER_VERSION"),
            architecture=self._architecture(),
            options=MappingProxyType(options),
        )

    def _device_text(self) -> str:
        """Return the device, with its full name unless a CPU: no GPU's blobs are for another."""
        if self._device == _CPU or self._kind in _VIRTUAL_DEVICES:
            return self._device
        return f"{self._device} ({self._first_property('FULL_DEVICE_NAME')})"

    def _architecture(self) -> str:
        """Return the CPU's microarchitecture, since its blobs depend on instruction sets.

        For another device, the plug-in's word for it.
        """
        if self._device == _CPU or self._kind in _VIRTUAL_DEVICES:
            return host_architecture()
        return self._first_property("DEVICE_ARCHITECTURE")

    def _loaded_config(self) -> dict[str, str]:
        """Return what ``load_config`` has for this device; others are not part of the session."""
        text = self._options.get(LOAD_CONFIG, "")
        return dict(read_load_config(text).get(self._kind, {})) if text else {}

    @property
    def _kind(self) -> str:
        return self._device.partition(":")[0].partition(".")[0]

    def _first_property(self, *names: str) -> str:
        """Return the first of these properties that the device has; "" if it has none."""
        for name in names:
            with contextlib.suppress(
                Exception
            ):  # plug-ins differ in what they know and in what they raise
                return str(self._core.get_property(self._device, name))
        return ""


class _OpenVinoModel:
    """Compiled model, or one member of a compiled group, with its infer requests."""

    def __init__(
        self,
        compiled: Any,
        ports: Ports,
        device: str,
        counts: Mapping[str, int],
        *,
        keeps: object = None,
    ) -> None:
        """Wrap OpenVINO's model.

        Args:
            compiled: OpenVINO's model.
            ports: positions of the ONNX model's inputs and outputs among those of ``compiled``.
            device: device that was asked for.
            counts: nodes by device, if the virtual ``device`` splits the model among several.
            keeps: object that must live as long as the model.
        """
        self._compiled = compiled
        self._device = device
        self._counts = counts
        self._keeps = keeps
        self._ports = ports
        self._requests = (
            keeps.requests if isinstance(keeps, SharedCompiledModels) else RequestPool(compiled)
        )

    def compute(self, inputs: Sequence[Any], context: WatchedRun) -> Sequence[Any]:
        pooled = self._requests.take(self._ports)
        request = pooled.infer_request
        feeds = dict(zip(self._ports.inputs, map(_lendable, inputs), strict=True))
        if context.is_watched:
            results = run_watched(
                context, lambda: request.infer(feeds, share_inputs=True), request.cancel
            )
        else:
            # nobody writes to them before it returns
            results = request.infer(feeds, share_inputs=True)
        self._requests.give_back(pooled, self._ports)
        # Copies already (share_outputs is off): the request's own buffers are overwritten by its
        # next call.
        return [results[output] for output in self._ports.outputs]

    def export(self) -> memoryview:
        """Return the blob that ``import_model`` takes."""
        return memoryview(self._compiled.export_model().getbuffer())

    def get_placement(self) -> Sequence[BackendPlacement]:
        """Return the devices to which AUTO has moved the model by now, or HETERO has split it."""
        if len(self._counts) > 1:
            return [self._placement(device, count) for device, count in self._counts.items()]
        # "(CPU)": AUTO runs on the CPU until another device is ready.
        devices = [
            str(name).strip("()") for name in self._compiled.get_property("EXECUTION_DEVICES")
        ]
        return [self._placement(", ".join(devices) or self._device, None)]

    def _placement(self, device: str, node_count: int | None) -> BackendPlacement:
        wanted = _wanted_devices(self._device)
        is_fallback = device == _CPU and bool(wanted) and _CPU not in wanted
        reason = f"OpenVINO chose it although {self._device} was asked for" if is_fallback else ""
        return BackendPlacement(
            ep_name=OPENVINO_EP,
            device=device,
            node_count=node_count,
            is_fallback=is_fallback,
            reason=reason,
        )


def _lendable(value: Any) -> Any:
    """Return the array, copied if it is a read-only scalar, which OpenVINO does not accept.

    OpenVINO copies other read-only arrays by itself.
    """
    return value.copy() if value.ndim == 0 and not value.flags.writeable else value


def _count_nodes(core: Any, model: Any, device: str) -> dict[str, int]:
    """Return how many of OpenVINO's operations each device of "HETERO:..." takes.

    Source: its "Heterogeneous Execution".
    """
    devices = core.query_model(model, device)
    names = [
        operation.get_friendly_name()
        for operation in model.get_ops()
        if operation.get_type_name() not in _NO_OPERATIONS
    ]
    return dict(Counter(devices[name] for name in names if name in devices))


def _wanted_devices(device: str) -> frozenset[str]:
    """Return the kinds of device that were asked for, without a CPU behind others.

    Empty if the choice is OpenVINO's.
    """
    kinds = [
        name.partition(".")[0].partition("(")[0] for name in device.partition(":")[2].split(",")
    ]
    named = kinds if ":" in device else [device.partition(".")[0]]
    accelerators = frozenset(kind for kind in named if kind != _CPU)
    return (accelerators or frozenset(named)) - _VIRTUAL_DEVICES


def _ports_of(compiled: Any, inputs: Sequence[str], outputs: Sequence[str]) -> Ports:
    return Ports(
        inputs=tuple(port_of(compiled.inputs, name) for name in inputs),
        outputs=tuple(port_of(compiled.outputs, name) for name in outputs),
        constants={},
    )


def _properties_of(options: Mapping[str, str]) -> dict[str, str]:
    properties: dict[str, str] = {}
    for key, value in options.items():
        if key in _PROPERTIES:
            properties[_PROPERTIES[key]] = value
        elif key == "precision":
            if value not in _PRECISIONS:
                listed = ", ".join(_PRECISIONS)
                raise InvalidSessionOptionError(
                    f"precision is {quoted(value)}; known are: {listed}", key=key
                )
            properties.update(_PRECISIONS[value])
        elif key not in _OWN_OPTIONS:
            listed = ", ".join(sorted((*_OWN_OPTIONS, *_PROPERTIES)))
            raise InvalidSessionOptionError(
                f"{OPENVINO_EP} has no option {quoted(key)}; known are: {listed}", key=key
            )
    return properties
