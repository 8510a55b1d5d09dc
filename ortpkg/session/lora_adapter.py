"""onnxruntime's AdapterFormat and LoraAdapter: tensors that replace inputs' default values."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ortpkg.errors import UsageError, quoted
from ortpkg.graph.adapter_file import FORMAT_VERSION, AdapterFile, read_adapter, write_adapter
from ortpkg.graph.types import ElementType
from ortpkg.kernels.op_kernel import Tensor
from ortpkg.session.ort_value import OrtValue


class AdapterFormat:
    """An adapter that is being put together, or was read, to be written."""

    def __init__(self, adapter: AdapterFormat | None = None) -> None:
        """An empty one, or one with the versions and tensors of another."""
        self._adapter_version = 0 if adapter is None else adapter.get_adapter_version()
        self._model_version = 0 if adapter is None else adapter.get_model_version()
        self._parameters = {} if adapter is None else adapter.get_parameters()

    @staticmethod
    def read_adapter(file_path: str | os.PathLike[str]) -> AdapterFormat:
        """The adapter in a file. AdapterFileError for a file that is missing or no adapter."""
        read = read_adapter(Path(file_path))
        made = AdapterFormat()
        made._adapter_version, made._model_version = read.adapter_version, read.model_version
        made._parameters = {name: OrtValue(array) for name, array in read.parameters.items()}
        return made

    def export_adapter(self, file_path: str | os.PathLike[str]) -> None:
        """Writes the adapter, replacing a file that is there."""
        arrays = {name: value.numpy() for name, value in self._parameters.items()}
        types = {
            name: ElementType(value.element_type()) for name, value in self._parameters.items()
        }
        adapter = AdapterFile(
            parameters=arrays,
            element_types=types,
            adapter_version=self._adapter_version,
            model_version=self._model_version,
        )
        write_adapter(adapter, Path(file_path))

    def get_format_version(self) -> int:
        """The version of the file's format, not of what is in it."""
        return FORMAT_VERSION

    def set_adapter_version(self, adapter_version: int) -> None:
        """A number of the author's for the adapter."""
        self._adapter_version = adapter_version

    def get_adapter_version(self) -> int:
        """The author's number for the adapter; 0 where none was set."""
        return self._adapter_version

    def set_model_version(self, model_version: int) -> None:
        """A number of the author's for the model that the adapter belongs to."""
        self._model_version = model_version

    def get_model_version(self) -> int:
        """The author's number for the model; 0 where none was set."""
        return self._model_version

    def set_parameters(self, params: Mapping[str, OrtValue]) -> None:
        """The adapter's tensors by the names of the inputs that they stand in for.

        UsageError for what is no tensor of numbers with dimensions: onnxruntime could not read it.
        """
        for name, value in params.items():
            if (
                not value.is_tensor()
                or value.element_type() == ElementType.STRING
                or not value.shape()
            ):
                raise UsageError(
                    f"parameter {quoted(name)} is a {value.data_type()}; an adapter has tensors of"
                    " numbers, of one dimension or more"
                )
        self._parameters = dict(params)

    def get_parameters(self) -> dict[str, OrtValue]:
        """The tensors by the names of the inputs that they stand in for.

        Those of a file that was read are mapped.
        """
        return dict(self._parameters)


class LoraAdapter:
    """An adapter to run with: ``RunOptions.add_active_adapter``."""

    def __init__(self) -> None:
        self._parameters: Mapping[str, Tensor] = {}

    def Load(self, file_path: str | os.PathLike[str]) -> None:  # noqa: N802 - its name in onnxruntime
        """Maps the file. AdapterFileError for one that is missing or no adapter."""
        self._parameters = read_adapter(Path(file_path)).parameters

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        """Tensors by the names of the inputs that they stand in for."""
        return self._parameters


def fed_with_adapters(feeds: Mapping[str, Any], adapters: Sequence[LoraAdapter]) -> dict[str, Any]:
    """``feeds``, and what adapters have for inputs that are not fed; the last adapter wins."""
    found: dict[str, Any] = {}
    for adapter in adapters:
        found.update(adapter.parameters)
    return {**found, **feeds}
