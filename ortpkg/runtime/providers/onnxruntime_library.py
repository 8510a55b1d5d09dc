"""Native library onnxruntime: a session per model, on one of its execution providers."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import InvalidSessionOptionError, quoted
from ortpkg.foundations.isolation.run_watch import WatchedRun, run_watched
from ortpkg.runtime.ep_context.ep_context_options import EXTERNAL_DATA_FOLDER
from ortpkg.runtime.kernels.device_tensor import DeviceTensor
from ortpkg.runtime.kernels.kernel_registry import DeviceSlots
from ortpkg.runtime.providers.allocator import Allocator
from ortpkg.runtime.providers.execution_provider import BackendPlacement
from ortpkg.runtime.providers.library_traits import WeightForm, onnxruntime_weight_form
from ortpkg.runtime.providers.library_words import quoted_words
from ortpkg.runtime.providers.native_library import (
    CompiledModel,
    NativeLibrary,
    NativeModel,
    NativeWeight,
)
from ortpkg.runtime.providers.onnxruntime_memory import DeviceRuns, cuda_memory, device_runs
from ortpkg.runtime.providers.onnxruntime_turns import takes_turns, turn
from ortpkg.runtime.providers.provider_trials import SMALLEST_MODEL, why_left_out
from ortpkg.runtime.providers.quiet_onnxruntime import FATAL_ONLY, load_onnxruntime
from ortpkg.runtime.providers.session_settings import NO_CPU_FALLBACK_ENTRY

onnxruntime = load_onnxruntime()

#: Option of ours for onnxruntime's session, since its CPU provider has none for the number of
#: threads.
THREADS_OPTION = "intra_op_num_threads"
#: Makes a session remember which of its providers took which nodes; older releases ignore it.
_RECORD_ASSIGNMENT_ENTRY = "session.record_ep_graph_assignment_info"
#: Enumerations of onnxruntime, by the option that has them.
_ENUMERATIONS = {
    "execution_mode": "ExecutionMode",
    "execution_order": "ExecutionOrder",
    "graph_optimization_level": "GraphOptimizationLevel",
}
#: y = x + w, of a float x and 256 floats w, which lie elsewhere.
_MODEL_OF_A_WEIGHT = bytes.fromhex(
    "08083a510a0e0a01780a017712017922034164641201672a1908800210014201776a0d0a086c6f636174696f"
    "6e12017770015a0f0a0178120a0a08080112040a02080162100a0179120b0a09080112050a0308800242040a"
    "001010"
)


class OnnxRuntimeLibrary(NativeLibrary):
    """One of onnxruntime's own execution providers, which compiles and keeps nothing.

    Nodes that it leaves run on onnxruntime's own CPU provider.
    """

    backend = "onnxruntime"

    def __init__(self, ep_name: str, options: Mapping[str, str]) -> None:
        self._ep_name = ep_name
        self._options = dict(options)
        self._is_opened = False
        self._cuda_memory = cuda_memory(ep_name, self._options)

    @property
    def memory(self) -> Allocator | None:
        return self._cuda_memory

    @property
    def weight_form(self) -> WeightForm:
        return onnxruntime_weight_form(onnxruntime.__version__)

    def opened(self) -> None:
        """Make a session; InvalidSessionOptionError if onnxruntime refuses the options."""
        if self._is_opened or not self.settings:
            return
        self._is_opened = True
        options = self._session_options()
        try:
            onnxruntime.InferenceSession(
                SMALLEST_MODEL, options, providers=[CPU_EP], enable_fallback=0
            )
        except Exception as error:
            if self.settings.entries.get(NO_CPU_FALLBACK_ENTRY) == "1":
                return  # this model cannot be tried so; the session's own model will show it
            names = ", ".join(map(quoted, (*self.settings.values, *self.settings.entries)))
            raise InvalidSessionOptionError(
                f"onnxruntime {onnxruntime.__version__} makes no session with the options {names}: "
                f"{quoted_words(error)}",
                key=next(iter((*self.settings.entries, *self.settings.values))),
            ) from error

    def compile_model(self, model: NativeModel) -> CompiledModel:
        model = with_usable_weights(model)
        return self._loaded(model, self._options_of(model))

    def _loaded(self, model: NativeModel, options: Any) -> OnnxRuntimeModel:
        """Return a session of the model, with options that have its weights."""
        session = self._session(model.data, options)
        model.verify_files()
        keeps = model.weights if model.weights and not copies_weights() else None
        return self._model(session, model.inputs, model.outputs, keeps=keeps)

    def _model(
        self,
        session: Any,
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        keeps: object = None,
    ) -> OnnxRuntimeModel:
        return OnnxRuntimeModel(
            session,
            inputs,
            outputs,
            self._ep_name,
            keeps=keeps,
            device_runs=device_runs(session, inputs, outputs, self._cuda_memory),
        )

    def _options_of(self, model: NativeModel) -> Any:
        options = self._session_options()
        for key, value in model.config_entries.items():
            options.add_session_config_entry(key, value)
        add_weights(options, model)
        return options

    def _session_options(self) -> Any:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = FATAL_ONLY
        options.add_session_config_entry(_RECORD_ASSIGNMENT_ENTRY, "1")
        for name, value in self.settings.values.items():
            setattr(options, name, _member(name, value))
        for key, text in self.settings.entries.items():
            if key != NO_CPU_FALLBACK_ENTRY or self._ep_name != CPU_EP:
                options.add_session_config_entry(key, text)
        if threads := self._options.get(
            THREADS_OPTION, ""
        ):  # overrides the option of the whole session
            options.intra_op_num_threads = _thread_count(threads)
        return options

    def _own_options(self) -> dict[str, str]:
        return {key: value for key, value in self._options.items() if key != THREADS_OPTION}

    def _session(self, data: bytes, options: Any) -> Any:
        providers: list[Any] = [(self._ep_name, self._own_options())]
        if self._ep_name != CPU_EP:
            providers.append(CPU_EP)
        return onnxruntime.InferenceSession(data, options, providers=providers)


def add_weights(options: Any, model: NativeModel) -> None:
    """Give onnxruntime's session options the weights that are not in the model's message."""
    if model.folder:
        options.add_session_config_entry(EXTERNAL_DATA_FOLDER, model.folder)
    if model.weights:
        values = [_ort_value(weight) for weight in model.weights.values()]
        options.add_external_initializers(list(model.weights), values)


def with_usable_weights(model: NativeModel) -> NativeModel:
    """Return the model with weights that onnxruntime may compute on: aligned, if it copies none.

    Copied weights may be unaligned, as they are mapped: an aligned copy would be a second one in
    memory while the session is made.
    """
    if not model.weights or copies_weights():
        return model
    aligned = {name: _aligned(weight) for name, weight in model.weights.items()}
    return replace(model, weights=aligned)


def _aligned(weight: NativeWeight) -> NativeWeight:
    word = _words(weight)
    return weight if word.flags.aligned else replace(weight, data=word.copy().view(np.uint8).data)


@functools.cache
def copies_weights() -> bool:
    """Return True if onnxruntime copies weights that are passed to it, as releases up to 1.32 do.

    Then nothing has to keep the weights' memory, and it need not be aligned.
    """
    weight = np.zeros(256, np.float32)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = FATAL_ONLY
    value = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(weight.view(np.uint32), 1)
    options.add_external_initializers(["w"], [value])
    session = onnxruntime.InferenceSession(_MODEL_OF_A_WEIGHT, options, providers=[CPU_EP])
    weight[:] = 1
    (output,) = session.run(None, {"x": np.zeros(1, np.float32)})
    return not output.any()


def _ort_value(weight: NativeWeight) -> Any:
    """Return onnxruntime's view of the weight; its elements are words to numpy."""
    array = _words(weight).reshape(weight.shape)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, weight.element_type)


def _words(weight: NativeWeight) -> npt.NDArray[Any]:
    return np.frombuffer(weight.data, f"u{weight.data.nbytes // prod(weight.shape)}")


def _member(name: str, value: int | bool | str) -> Any:
    """Return the value of an option in onnxruntime's form.

    Raises:
        InvalidSessionOptionError: this release does not have the value.
    """
    if name not in _ENUMERATIONS:
        return value
    member = getattr(getattr(onnxruntime, _ENUMERATIONS[name], None), str(value), None)
    if member is None:
        raise InvalidSessionOptionError(
            f"onnxruntime {onnxruntime.__version__} has no {name} {value}", key=name
        )
    return member


def _thread_count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InvalidSessionOptionError(
            f"{THREADS_OPTION} is a number of threads, 0 or more, not {quoted(text)}",
            key=THREADS_OPTION,
        )
    return int(text)


class OnnxRuntimeModel:
    """Model in a session; onnxruntime allows concurrent calls of ``run``."""

    def __init__(
        self,
        session: Any,
        inputs: Sequence[str],
        outputs: Sequence[str],
        ep_name: str,
        *,
        name_there: str = "",
        optimized: bytes | None = None,
        keeps: object = None,
        device_runs: DeviceRuns | None = None,
    ) -> None:
        """Wrap an onnxruntime session.

        Args:
            session: onnxruntime's session.
            inputs, outputs: names of the model's inputs and outputs, in order.
            ep_name: name of the execution provider.
            name_there: onnxruntime's name of the provider: the program may have registered its
                library under another name.
            optimized: the optimized model, until it is taken.
            keeps: memory that must live as long as the session.
            device_runs: its runs with values on the device; None if all are arrays.
        """
        self._device_runs = device_runs
        self._keeps = keeps
        self._session = session
        self._ep_name = ep_name
        self._takes_turns = takes_turns(ep_name)
        self._name_there = name_there or ep_name
        self._inputs = tuple(inputs)
        self._outputs = list(outputs)
        self._optimized = optimized

    def take_optimized(self) -> bytes | None:
        """Return the optimized model, once; None if nobody kept it."""
        optimized, self._optimized = self._optimized, None
        return optimized

    def compute(self, inputs: Sequence[Any], context: WatchedRun) -> Sequence[Any]:
        runs = self._device_runs
        targets = {} if runs is None else runs.targets(context)
        if not (context.is_watched or self._takes_turns):  # most runs; a short way to the library
            return self._run(inputs, targets, None)
        with turn(self._ep_name, context):
            if not context.is_watched:
                return self._run(inputs, targets, None)
            options = onnxruntime.RunOptions()
            options.log_severity_level = FATAL_ONLY
            return run_watched(
                context,
                lambda: self._run(inputs, targets, options),
                lambda: setattr(options, "terminate", True),
            )

    def get_placement(self) -> Sequence[BackendPlacement]:
        """Return one entry per provider that took nodes; a GPU's may leave nodes to the CPU's."""
        if self._ep_name == CPU_EP:
            return ()  # the only provider of the session
        if self._name_there not in self._session.get_providers():
            why = why_left_out(onnxruntime, self._ep_name) or "it cannot start here"
            reason = f"onnxruntime {onnxruntime.__version__} left it out: {why}"
            left_out = BackendPlacement(ep_name=self._ep_name, node_count=0, reason=reason)
            return [left_out, BackendPlacement(ep_name=CPU_EP, is_fallback=True)]
        tell = getattr(self._session, "get_provider_graph_assignment_info", None)
        if tell is None:
            reason = (
                f"onnxruntime {onnxruntime.__version__} does not tell which of them its CPU"
                " provider runs"
            )
            return [BackendPlacement(ep_name=self._ep_name, reason=reason)]
        names: dict[str, list[str]] = {self._ep_name: []}
        for subgraph in tell():
            taker = self._ep_name if subgraph.ep_name == self._name_there else subgraph.ep_name
            names.setdefault(taker, []).extend(node.name for node in subgraph.get_nodes())
        return [
            BackendPlacement(
                ep_name=ep_name,
                node_count=len(node_names),
                node_names=frozenset(node_names),
                is_fallback=ep_name != self._ep_name,
                reason=(
                    ""
                    if node_names
                    else f"onnxruntime {onnxruntime.__version__} gave its nodes to other providers"
                ),
            )
            for ep_name, node_names in names.items()
        ]

    @property
    def device_slots(self) -> DeviceSlots:
        """Inputs and outputs that the session has in its device's memory."""
        return DeviceSlots() if self._device_runs is None else self._device_runs.slots

    def _run(
        self, inputs: Sequence[Any], targets: Mapping[int, object], options: Any
    ) -> Sequence[Any]:
        runs = self._device_runs
        if runs is not None and (targets or DeviceTensor in map(type, inputs)):
            return runs.run(inputs, targets, options)
        feeds = dict(zip(self._inputs, inputs, strict=True))
        results: Sequence[Any] = self._session.run(self._outputs, feeds, options)
        return results
