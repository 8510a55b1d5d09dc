"""Contexts of onnxruntime, on its CPU provider and on those of wheels.

On its CPU provider a context is the optimized model: loading that skips its transformers. The
optimized model has layouts for this CPU in it, so that it fits one microarchitecture; other
releases with the same major and minor version know its operators. A wheel's provider compiles the
model into one with its contexts, which is kept whole.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import ExecutionProviderError, quoted
from ortpkg.machine.architecture import host_architecture
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.ep_context.ep_context_checks import PartsFile
from ortpkg.runtime.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.runtime.providers.allocator import Allocator
from ortpkg.runtime.providers.ep_discovery.ep_libraries import ep_library_of
from ortpkg.runtime.providers.ep_library_target import (
    EpLibraryTarget,
    ep_library_target,
    is_registered_library,
    precision_options,
)
from ortpkg.runtime.providers.library_traits import WeightForm
from ortpkg.runtime.providers.native_library import (
    CompiledModel,
    ContextLibrary,
    NativeModel,
    Part,
)
from ortpkg.runtime.providers.nvidia_libraries import CUDA_EPS, prepare_nvidia_libraries
from ortpkg.runtime.providers.onnxruntime_library import (
    OnnxRuntimeLibrary,
    OnnxRuntimeModel,
    add_weights,
    copies_weights,
    with_usable_weights,
)
from ortpkg.runtime.providers.onnxruntime_memory import DeviceRuns, device_memory
from ortpkg.runtime.providers.onnxruntime_parts import model_of_parts, parts_of_model
from ortpkg.runtime.providers.onnxruntime_turns import turn
from ortpkg.runtime.providers.quiet_onnxruntime import load_onnxruntime

onnxruntime = load_onnxruntime()


def open_onnxruntime(
    ep_name: str,
    *,
    ep_devices: Sequence[EpDevice] = (),
    options: Mapping[str, str] | None = None,
) -> OnnxRuntimeLibrary:
    """Return onnxruntime with that execution provider, its own or a wheel's.

    Raises:
        ExecutionProviderError: this build of onnxruntime does not have the provider.
    """
    if ep_name in CUDA_EPS:
        prepare_nvidia_libraries(onnxruntime)
    library = ep_library_of(ep_name)
    available = onnxruntime.get_available_providers()
    if library is not None and (
        ep_name not in available or is_registered_library(onnxruntime, library)
    ):
        target = ep_library_target(onnxruntime, library, ep_devices)
        return WheelLibrary(ep_name, options or {}, target)
    if ep_name not in available:
        raise ExecutionProviderError(
            f"onnxruntime {onnxruntime.__version__} has no {quoted(ep_name)}; it has:"
            f" {', '.join(available)}",
            ep_name=ep_name,
        )
    if ep_name == CPU_EP:
        return OptimizingLibrary(ep_name, options or {})
    of_device = dict(ep_devices[0].ep_options) if ep_devices else {}
    return OnnxRuntimeLibrary(ep_name, {**of_device, **(options or {})})


class OptimizingLibrary(OnnxRuntimeLibrary, ContextLibrary):
    """Library for onnxruntime's CPU provider, which keeps optimized models."""

    def compile_model(self, model: NativeModel) -> CompiledModel:
        model = with_usable_weights(model)
        if model.is_kept:
            with contextlib.suppress(Exception):  # writing the file may be what failed
                session, optimized = self._optimized(model)
                return OnnxRuntimeModel(
                    session,
                    model.inputs,
                    model.outputs,
                    self._ep_name,
                    optimized=optimized,
                    keeps=None if copies_weights() else model.weights,
                )
        return super().compile_model(model)

    def _optimized(self, model: NativeModel) -> tuple[Any, bytes]:
        """Return a session, and the model as it optimized it."""
        with tempfile.TemporaryDirectory(prefix="ortpkg-") as folder:
            path = Path(folder) / "optimized.onnx"
            options = self._options_of(model)
            options.optimized_model_filepath = str(path)
            return self._session(model.data, options), path.read_bytes()

    def export_model(self, compiled: CompiledModel, model: NativeModel) -> Mapping[str, Part]:
        assert isinstance(compiled, OnnxRuntimeModel)
        optimized = compiled.take_optimized()
        if optimized is None:
            _, optimized = self._optimized(with_usable_weights(model))
        return parts_of_model(optimized, model)

    def import_model(
        self, parts: Mapping[str, Part], file: PartsFile | None = None
    ) -> CompiledModel:
        model = model_of_parts(parts, file if self.weight_form is WeightForm.EXTERNAL else None)
        options = self._options_of(model)
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return self._loaded(model, options)

    def describe_environment(self) -> ContextDescriptor:
        return ContextDescriptor(
            ep=self._ep_name,
            sdk_version=f"onnxruntime {onnxruntime.__version__}",
            device="CPU",
            architecture=host_architecture(),
            options=MappingProxyType(self._own_options()),
        )


class WheelLibrary(OnnxRuntimeLibrary, ContextLibrary):
    """Library for a wheel's execution provider, which keeps models with its contexts in them."""

    def __init__(self, ep_name: str, options: Mapping[str, str], target: EpLibraryTarget) -> None:
        super().__init__(
            ep_name, {**target.options, **precision_options(ep_name, options), **options}
        )
        self._target = target
        self._memory = device_memory(ep_name, target.ep_devices[0])

    @property
    def memory(self) -> Allocator | None:
        return self._memory

    def target_options(self) -> Any:
        """Return onnxruntime's session options with the provider."""
        options = self._session_options()
        options.add_provider_for_devices(list(self._target.ep_devices), self._own_options())
        return options

    def export_model(self, compiled: CompiledModel, model: NativeModel) -> Mapping[str, Part]:
        """Return the model with the provider's contexts inside.

        Raises what onnxruntime raises if it takes no node of the model.
        """
        del compiled
        options = self.target_options()
        add_weights(options, with_usable_weights(model))
        flags = onnxruntime.OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED
        with turn(self._ep_name):
            compiler = onnxruntime.ModelCompiler(
                options, model.data, embed_compiled_data_into_model=True, flags=flags
            )
            data = compiler.compile_to_bytes()
        return parts_of_model(data, model)

    def import_model(
        self, parts: Mapping[str, Part], file: PartsFile | None = None
    ) -> CompiledModel:
        model = model_of_parts(parts, file if self.weight_form is WeightForm.EXTERNAL else None)
        return self._loaded(model, self._options_of(model))

    def describe_environment(self) -> ContextDescriptor:
        return self._target.describe(self._own_options())

    def _model(
        self,
        session: Any,
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        keeps: object = None,
    ) -> OnnxRuntimeModel:
        name_there = str(self._target.ep_devices[0].ep_name)
        return OnnxRuntimeModel(
            session,
            inputs,
            outputs,
            self._ep_name,
            name_there=name_there,
            keeps=keeps,
            device_runs=(
                None if self._memory is None else DeviceRuns(session, inputs, outputs, self._memory)
            ),
        )

    def _session(self, data: bytes, options: Any) -> Any:
        options.add_provider_for_devices(list(self._target.ep_devices), self._own_options())
        with turn(self._ep_name):
            # Without fallback: it would print, and run on onnxruntime's CPU provider.
            return onnxruntime.InferenceSession(data, options, enable_fallback=0)
