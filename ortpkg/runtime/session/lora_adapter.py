"""LoRA adapters under onnxruntime's names: tensors that replace inputs' default values."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ortpkg.foundations.errors import UsageError, quoted
from ortpkg.graph.adapter_file import FORMAT_VERSION, AdapterFile, read_adapter, write_adapter
from ortpkg.graph.types import ElementType
from ortpkg.runtime.kernels.op_kernel import Tensor
from ortpkg.runtime.session.values.ort_value import OrtValue


class AdapterFormat:
    """An adapter that is being built, or was read from a file."""

    def __init__(self, adapter: AdapterFormat | None = None) -> None:
        """Create an empty adapter, or one with the versions and tensors of another."""
        self._adapter_version = 0 if adapter is None else adapter.get_adapter_version()
        self._model_version = 0 if adapter is None else adapter.get_model_version()
        self._parameters = {} if adapter is None else adapter.get_parameters()

    @staticmethod
    def read_adapter(file_path: str | os.PathLike[str]) -> AdapterFormat:
        """Read the adapter in a file.

        Raises:
            AdapterFileError: the file is missing or not an adapter.
        """
        file = read_adapter(Path(file_path))
        adapter = AdapterFormat()
        adapter._adapter_version, adapter._model_version = file.adapter_version, file.model_version
        adapter._parameters = {name: OrtValue(array) for name, array in file.parameters.items()}
        return adapter

    def export_adapter(self, file_path: str | os.PathLike[str]) -> None:
        """Write the adapter, replacing an existing file."""
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
        """Return the version of the file format."""
        return FORMAT_VERSION

    def set_adapter_version(self, adapter_version: int) -> None:
        """Set the author's version number of the adapter."""
        self._adapter_version = adapter_version

    def get_adapter_version(self) -> int:
        """Return the author's version number of the adapter; 0 if none was set."""
        return self._adapter_version

    def set_model_version(self, model_version: int) -> None:
        """Set the author's version number of the model that the adapter belongs to."""
        self._model_version = model_version

    def get_model_version(self) -> int:
        """Return the author's version number of the model; 0 if none was set."""
        return self._model_version

    def set_parameters(self, params: Mapping[str, OrtValue]) -> None:
        """Set the adapter's tensors, by the names of the inputs that they replace.

        Raises:
            UsageError: a value is not a tensor of numbers with dimensions, which onnxruntime could
                not read.
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
        """Return the tensors by the names of the inputs that they replace.

        Tensors from a file are mapped.
        """
        return dict(self._parameters)


class LoraAdapter:
    """An adapter for runs; see ``RunOptions.add_active_adapter``."""

    def __init__(self) -> None:
        self._parameters: Mapping[str, Tensor] = {}

    def Load(self, file_path: str | os.PathLike[str]) -> None:  # noqa: N802 - its name in onnxruntime
        """Map an adapter file.

        Raises:
            AdapterFileError: the file is missing or not an adapter.
        """
        self._parameters = read_adapter(Path(file_path)).parameters

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        """Tensors by the names of the inputs that they replace."""
        return self._parameters


def fed_with_adapters(feeds: Mapping[str, Any], adapters: Sequence[LoraAdapter]) -> dict[str, Any]:
    """Return ``feeds`` with the adapters' tensors for inputs that are not fed.

    The last one wins.
    """
    parameters: dict[str, Any] = {}
    for adapter in adapters:
        parameters.update(adapter.parameters)
    return {**parameters, **feeds}
