"""OpenVINOExecutionProvider: whole models on OpenVINO's CPU, GPU or NPU plug-in.

Precision: OpenVINO's CPU plug-in computes in bfloat16 by default where the CPU has it (errors of 1e-2); here it
computes in float32 unless the option ``precision`` says otherwise. Option names are those of ONNX Runtime's OpenVINO
execution provider.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import openvino

from ortpkg.devices.hardware import EpDevice
from ortpkg.ep_names import OPENVINO_EP
from ortpkg.errors import InvalidSessionOptionError, quoted
from ortpkg.kernels.op_kernel import OpKernelContext
from ortpkg.providers.execution_provider import BackendPlacement
from ortpkg.providers.run_watch import run_watched
from ortpkg.providers.whole_model import CompiledModel, WholeModel, WholeModelProvider

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
_CPU = "CPU"
#: Operations that compute nothing.
_NO_OPERATIONS = frozenset({"Constant", "Parameter", "Result"})
_OWN_OPTIONS = ("device_type", "precision")


class OpenVINOExecutionProvider(WholeModelProvider):
    """One OpenVINO device (or virtual device such as "AUTO:GPU,CPU") in one session.

    Raises InvalidSessionOptionError for an option that it does not know.
    """

    backend = "openvino"

    def __init__(self, *, ep_devices: Sequence[EpDevice] = (), options: Mapping[str, str] | None = None) -> None:
        super().__init__(OPENVINO_EP, ep_devices=ep_devices, options=options)
        self._device = _device_of(ep_devices, self.options)
        self._properties = _properties_of(self.options)
        self._core = openvino.Core()
        if "precision" not in self.options:
            # On the plug-in, so that it also holds where AUTO or HETERO choose the CPU.
            self._core.set_property("CPU", _PRECISIONS["FP32"])

    def compile_model(self, model: WholeModel) -> CompiledModel:
        read = self._core.read_model(model.data)
        compiled = self._core.compile_model(read, self._device, self._properties)
        counts = _count_nodes(self._core, read, self._device) if self._device.startswith("HETERO") else {}
        return _OpenVinoModel(compiled, model, self._device, counts)


class _OpenVinoModel:
    """A compiled model with a pool of infer requests: each serves one call at a time."""

    def __init__(self, compiled: Any, model: WholeModel, device: str, counts: Mapping[str, int]) -> None:
        """``counts``: nodes by device, where the virtual ``device`` splits the model among several."""
        self._compiled = compiled
        self._device = device
        self._counts = counts
        self._slots = [_slot_of(compiled.inputs, name) for name in model.inputs]
        self._outputs = [compiled.outputs[_slot_of(compiled.outputs, name)] for name in model.outputs]
        self._idle: list[Any] = []
        self._lock = threading.Lock()

    def compute(self, inputs: Sequence[Any], context: OpKernelContext) -> Sequence[Any]:
        with self._lock:
            request = self._idle.pop() if self._idle else None
        if request is None:
            request = self._compiled.create_infer_request()
        feeds = dict(zip(self._slots, inputs, strict=True))
        if context.is_watched:
            results = run_watched(context, lambda: request.infer(feeds), request.cancel)
        else:
            results = request.infer(feeds)
        with self._lock:
            self._idle.append(request)
        # Copies already (share_outputs is off): the request's own buffers are overwritten by its next call.
        return [results[output] for output in self._outputs]

    def get_placement(self) -> Sequence[BackendPlacement]:
        """Where AUTO has moved it by now, or HETERO has split it."""
        if len(self._counts) > 1:
            return [self._placement(device, count) for device, count in self._counts.items()]
        # "(CPU)": AUTO runs on the CPU until another device is ready.
        devices = [str(name).strip("()") for name in self._compiled.get_property("EXECUTION_DEVICES")]
        return [self._placement(", ".join(devices) or self._device, None)]

    def _placement(self, device: str, node_count: int | None) -> BackendPlacement:
        wanted = _wanted_devices(self._device)
        is_fallback = device == _CPU and bool(wanted) and _CPU not in wanted
        reason = f"OpenVINO chose it although {self._device} was asked for" if is_fallback else ""
        return BackendPlacement(
            ep_name=OPENVINO_EP, device=device, node_count=node_count, is_fallback=is_fallback, reason=reason
        )


def _count_nodes(core: Any, model: Any, device: str) -> dict[str, int]:
    """How many of OpenVINO's operations each device of "HETERO:..." takes; source: its "Heterogeneous Execution"."""
    devices = core.query_model(model, device)
    names = [each.get_friendly_name() for each in model.get_ops() if each.get_type_name() not in _NO_OPERATIONS]
    return dict(Counter(devices[name] for name in names if name in devices))


def _wanted_devices(device: str) -> frozenset[str]:
    """The kinds of device that were asked for, but for a CPU behind others; empty where the choice is OpenVINO's."""
    kinds = [each.partition(".")[0].partition("(")[0] for each in device.partition(":")[2].split(",")]
    named = kinds if ":" in device else [device.partition(".")[0]]
    accelerators = frozenset(kind for kind in named if kind != _CPU)
    return (accelerators or frozenset(named)) - {"", "AUTO", "HETERO", "MULTI", "BATCH"}


def _slot_of(ports: Sequence[Any], name: str) -> int:
    """The position of the port with that ONNX name; ValueError where OpenVINO made it a constant."""
    for position, port in enumerate(ports):
        if name in port.names:
            return position
    raise ValueError(f"OpenVINO does not know {quoted(name)} as an input or output of the model")


def _device_of(ep_devices: Sequence[EpDevice], options: Mapping[str, str]) -> str:
    """The option's device; where that is only a type ("GPU"), the EP device's more exact name ("GPU.1")."""
    offered = ep_devices[0].ep_options.get("device_type", "") if ep_devices else ""
    asked = options.get("device_type", "")
    if not asked or offered.partition(".")[0] == asked:
        return offered or "CPU"
    return asked


def _properties_of(options: Mapping[str, str]) -> dict[str, str]:
    properties: dict[str, str] = {}
    for key, value in options.items():
        if key in _PROPERTIES:
            properties[_PROPERTIES[key]] = value
        elif key == "precision":
            if value not in _PRECISIONS:
                known = ", ".join(_PRECISIONS)
                raise InvalidSessionOptionError(f"precision is {quoted(value)}; known are: {known}", key=key)
            properties.update(_PRECISIONS[value])
        elif key not in _OWN_OPTIONS:
            known = ", ".join(sorted((*_OWN_OPTIONS, *_PROPERTIES)))
            raise InvalidSessionOptionError(f"{OPENVINO_EP} has no option {quoted(key)}; known are: {known}", key=key)
    return properties
