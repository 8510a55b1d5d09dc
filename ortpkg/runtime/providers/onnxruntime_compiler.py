"""Compiles whole models to the contexts of onnxruntime's execution providers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from ortpkg.foundations.ep_names import QNN_EP
from ortpkg.foundations.errors import CompileError, ExecutionProviderError, quoted
from ortpkg.machine.hardware import EpDevice
from ortpkg.runtime.ep_context.ep_context_options import EXTERNAL_DATA_FOLDER
from ortpkg.runtime.providers.library_words import quoted_words
from ortpkg.runtime.providers.onnxruntime_contexts import WheelLibrary, open_onnxruntime
from ortpkg.runtime.providers.quiet_onnxruntime import load_onnxruntime

_MOST_DIMENSIONS_SHOWN = 5


class OnnxRuntimeCompiler:
    """Compiler of models for one EP device of a wheel's execution provider.

    Raises:
        ExecutionProviderError: this onnxruntime does not have the provider, or cannot compile.
    """

    def __init__(self, ep_device: EpDevice, options: Mapping[str, str]) -> None:
        self._onnxruntime = load_onnxruntime()
        self._ep_name = ep_device.ep_name
        self._library = open_onnxruntime(ep_device.ep_name, ep_devices=[ep_device], options=options)
        if not hasattr(self._onnxruntime, "ModelCompiler"):
            raise ExecutionProviderError(
                f"onnxruntime {self._onnxruntime.__version__} compiles no models; 1.23 and"
                " later do",
                ep_name=self._ep_name,
            )
        #: Compilers of a group: the provider keeps what models share while the options of one live.
        self._kept: list[Any] = []

    def compile(
        self,
        source: Path,
        output: Path,
        *,
        data_folder: str,
        is_embedded: bool,
        config_entries: Mapping[str, str],
    ) -> None:
        """Write the context model of ``source``, and the provider's files beside it.

        Args:
            source: path of the model.
            output: path of a file that does not exist yet.
            data_folder: folder of its external data; "" for beside it.
            is_embedded: True to put contexts into the model.
            config_entries: config entries of onnxruntime's session.

        Raises:
            CompileError: the provider takes no node, makes no context, or fails.
        """
        if not isinstance(self._library, WheelLibrary):
            raise CompileError(
                f"onnxruntime's {self._ep_name} makes no contexts: an execution provider's own"
                " library does (onnxruntime-ep-openvino, onnxruntime-qnn, ...)",
                ep_name=self._ep_name,
            )
        options = self._library.target_options()
        model: Any = str(source)
        if data_folder:
            model = source.read_bytes()
            options.add_session_config_entry(EXTERNAL_DATA_FOLDER, data_folder)
        for key, value in config_entries.items():
            options.add_session_config_entry(key, value)
        flags = self._onnxruntime.OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED
        try:
            compiler = self._onnxruntime.ModelCompiler(
                options, model, embed_compiled_data_into_model=is_embedded, flags=flags
            )
            self._kept.append(compiler)
            compiler.compile_to_file(str(output))
        except Exception as error:  # onnxruntime has an exception of its own for each status
            raise CompileError(
                f"onnxruntime's {self._ep_name} cannot compile {quoted(source.name)}:"
                f" {quoted_words(error)}{_advice(self._ep_name, source)}",
                ep_name=self._ep_name,
            ) from error


def _advice(ep_name: str, source: Path) -> str:
    """Return advice for a provider of fixed sizes, which does not mention open ones, or ""."""
    if ep_name != QNN_EP:
        return ""
    graph = onnx.load(source, load_external_data=False).graph
    constants = {initializer.name for initializer in graph.initializer}
    dimensions = [
        f"{dimension.dim_param or '?'} of {value.name}"
        for value in graph.input
        if value.name not in constants
        for dimension in value.type.tensor_type.shape.dim
        if not dimension.HasField("dim_value")
    ]
    if not dimensions:
        return ""
    names = ", ".join(map(quoted, dimensions[:_MOST_DIMENSIONS_SHOWN]))
    more = ", ..." if len(dimensions) > _MOST_DIMENSIONS_SHOWN else ""
    return (
        f"; {ep_name} takes fixed sizes only, and these are open: {names}{more}: fix them in the"
        " model"
    )
