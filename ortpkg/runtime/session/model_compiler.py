"""ModelCompiler: onnxruntime's Python API that writes models with compiled contexts."""

from __future__ import annotations

import contextlib
import copy
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ortpkg.foundations.ep_names import CPU_EP
from ortpkg.foundations.errors import SessionError, UsageError, printable, quoted
from ortpkg.graph.onnx_reader import load_model
from ortpkg.runtime.ep_context.context_node import ep_context_nodes
from ortpkg.runtime.ep_context.ep_context_data import ContextWriteFunction
from ortpkg.runtime.ep_context.ep_context_options import (
    CONTEXT_EMBED_MODE,
    CONTEXT_ENABLE,
    CONTEXT_FILE_PATH,
)
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.initializer_places import (
    LocateInitializer,
    external_locations,
    place_in_file,
    place_initializers,
)
from ortpkg.runtime.session.options import BACKEND_ENTRY, GraphOptimizationLevel, SessionOptions
from ortpkg.runtime.session.values.onnxruntime_enums import OrtCompileApiFlags

_SUFFIX = ".onnx"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """The model to compile: a file, or a serialized model."""

    path: Path | None
    content: bytes = b""

    @classmethod
    def of(cls, model: str | os.PathLike[str] | bytes) -> _Source:
        """Return the source for a path or bytes.

        Raises:
            UsageError: empty bytes or an empty path.
            TypeError: neither a path nor bytes.
        """
        if isinstance(model, bytes):
            if not model:
                raise UsageError("the model to compile is empty")
            return cls(path=None, content=model)
        if not isinstance(model, str | os.PathLike):
            raise TypeError(f"a model to compile is a path or bytes, not {type(model).__name__}")
        if not os.fspath(model):
            raise UsageError("the path of the model to compile is empty")
        return cls(path=Path(model))

    @property
    def model(self) -> Path | bytes:
        """The argument for a session: the path, or the bytes."""
        return self.content if self.path is None else self.path

    @property
    def default_output(self) -> Path:
        """Path ``<model>_ctx.onnx`` beside the model; UsageError for a model from memory."""
        if self.path is None:
            raise UsageError(
                "a model from memory has no folder to compile into: name the file to write"
            )
        name = self.path.name
        stem = name[: -len(_SUFFIX)] if name.lower().endswith(_SUFFIX) else name
        return self.path.with_name(f"{stem}_ctx{_SUFFIX}")


class ModelCompiler:
    """Compiler of a model to one with EPContext nodes, which execution providers load faster.

    Nodes that no execution provider compiles stay in the model, after graph transformations of the
    chosen level. docs/ep_context.md explains contexts; ``ortpkg compile`` does the same for
    packages.
    """

    def __init__(
        self,
        sess_options: SessionOptions,
        input_model_path_or_bytes: str | os.PathLike[str] | bytes,
        embed_compiled_data_into_model: bool = False,
        external_initializers_file_path: str | os.PathLike[str] | None = None,
        external_initializers_size_threshold: int = 1024,
        flags: int = OrtCompileApiFlags.NONE,
        graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_DISABLE_ALL,
        get_initializer_location_func: LocateInitializer | None = None,
    ) -> None:
        """Prepare a compilation; nothing is read or compiled yet.

        Args:
            sess_options: options with the execution providers to compile for; copied.
            input_model_path_or_bytes: a model file, or a serialized model.
            embed_compiled_data_into_model: True to store contexts in the model instead of in files
                beside it.
            external_initializers_file_path: file for initializers over the threshold, in the folder
                of the compiled model or below it.
            external_initializers_size_threshold: the threshold in bytes.
            flags: a combination of :class:`OrtCompileApiFlags`.
            graph_optimization_level: level of transformation of the nodes that are not compiled.
            get_initializer_location_func: called with the name, value and (if the source model has
                it in another file) location of each initializer; returns the location to write to
                the compiled model, or None to store the initializer in the model.

        Raises:
            UsageError: arguments that are empty or contradict each other.
        """
        self._source = _Source.of(input_model_path_or_bytes)
        if external_initializers_file_path and get_initializer_location_func is not None:
            raise UsageError(
                "either external_initializers_file_path or get_initializer_location_func, not both"
            )
        self._options = copy.deepcopy(sess_options)
        self._options.graph_optimization_level = GraphOptimizationLevel(graph_optimization_level)
        self._options.add_session_config_entry(
            CONTEXT_EMBED_MODE, "1" if embed_compiled_data_into_model else "0"
        )
        self._flags = OrtCompileApiFlags(flags)
        self._external_file = os.fspath(external_initializers_file_path or "")
        self._threshold = external_initializers_size_threshold
        self._locate = get_initializer_location_func

    def compile_to_file(self, output_model_path: str | None = None) -> None:
        """Write the compiled model; by default to ``<model>_ctx.onnx`` beside the model.

        An existing model is replaced, unless ``ERROR_IF_OUTPUT_FILE_EXISTS`` is set.

        Raises:
            SessionError: the file exists already, or nothing could be compiled although
                ``ERROR_IF_NO_NODES_COMPILED`` is set; no file is written then.
            UsageError: the model's file is missing; no path was given, and the model comes from
                memory.
            ModelError, ExecutionProviderError: as for sessions.
        """
        output = Path(output_model_path) if output_model_path else self._source.default_output
        if output.exists() and self._flags & OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS:
            raise SessionError(f"the compiled model {quoted(output)} exists already")
        with _set_aside(output):
            self._compile(output, is_default=not output_model_path)

    def set_ep_context_data_write_func(self, write_func: ContextWriteFunction) -> None:
        """Pass compiled contexts to a function instead of writing files beside the model.

        Embedded contexts stay in the model. The function gets the name that the model has for the
        data, and an :class:`~ortpkg.runtime.ep_context.ep_context_data.OrtEpContextData`, which is
        valid during the call only. ``SessionOptions.set_ep_context_data_read_func`` reads them
        back.

        Raises:
            TypeError, UsageError: ``write_func`` is not a function.
        """
        self._options.set_ep_context_data_write_func(write_func)

    def clear_ep_context_data_write_func(self) -> None:
        """Remove the function: contexts are written to files again."""
        self._options.clear_ep_context_data_write_func()

    def compile_to_bytes(self) -> bytes:
        """Return the compiled model, serialized.

        Contexts must be embedded, or taken by a function.

        Raises:
            UsageError: contexts lie in files of their own.
            SessionError, ModelError, ExecutionProviderError: as :meth:`compile_to_file`.
        """
        with tempfile.TemporaryDirectory(prefix="ortpkg-compile-") as folder:
            output = Path(folder) / "model_ctx.onnx"
            self._compile(output)
            others = sorted(path.name for path in Path(folder).iterdir() if path != output)
            if others:
                raise UsageError(
                    f"the compiled model needs {', '.join(map(quoted, others))} beside it, which"
                    " bytes cannot hold: embed the compiled data, and keep initializers in the"
                    " model"
                )
            return output.read_bytes()

    def compile_to_stream(self, write_function: Callable[[bytes], object]) -> None:
        """Pass the compiled model to ``write_function``.

        Raises:
            SessionError: ``write_function`` raised; the message has its text.
        """
        content = self.compile_to_bytes()
        try:
            write_function(content)
        except Exception as error:
            raise SessionError(
                f"the compiled model cannot be written: {printable(error)}"
            ) from error

    def _compile(self, output: Path, *, is_default: bool = False) -> None:
        if self._source.path is not None and not self._source.path.exists():
            raise UsageError(f"the model to compile is missing: {quoted(self._source.path)}")
        options = copy.deepcopy(self._options)
        options.add_session_config_entry(CONTEXT_ENABLE, "1")
        # A path that the caller gave names the binary, too.
        options.add_session_config_entry(CONTEXT_FILE_PATH, "" if is_default else str(output))
        self._make_session(options)
        if not output.exists():
            self._write_uncompiled(output)
        self._place_initializers(output)

    def _write_uncompiled(self, output: Path) -> None:
        """Write the model without contexts, or with only those that it has already."""
        if self._flags & OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED and not self._has_contexts():
            raise SessionError(
                "Unable to compile any nodes: no execution provider of the session options compiles"
                " a node of this model; add one that does (SessionOptions.add_provider)"
            )
        options = copy.deepcopy(self._options)
        options.optimized_model_filepath = str(output)
        self._make_session(options)

    def _make_session(self, options: SessionOptions) -> None:
        """Create and close a session.

        If its options name no execution provider, it runs on the CPU, as in onnxruntime.
        """
        is_named = options.has_providers() or BACKEND_ENTRY in options.config_entries
        InferenceSession(self._source.model, options, None if is_named else [CPU_EP]).close()

    def _has_contexts(self) -> bool:
        return next(ep_context_nodes(load_model(self._source.model).graph), None) is not None

    def _place_initializers(self, output: Path) -> None:
        if self._external_file:
            place_in_file(output, self._external_file, largest_inline_nbytes=self._threshold)
        elif self._locate is not None:
            source = {} if self._source.path is None else external_locations(self._source.path)
            place_initializers(output, self._locate, source)


@contextlib.contextmanager
def _set_aside(output: Path) -> Iterator[None]:
    """Move an existing file away, and put it back if writing the new one fails."""
    if not output.exists():
        yield
        return
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".ortpkg-compile-") as folder:
        backup = Path(folder) / output.name
        output.rename(backup)
        try:
            yield
        except BaseException:
            backup.replace(output)
            raise
