"""Tensors from the caller of a session, which replace those of the model or of its data files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy.typing as npt
import onnx

from ortpkg.foundations.errors import ModelError, ModelNotFoundError, quoted
from ortpkg.graph.byte_source import MemoryBytes
from ortpkg.graph.external_data import is_external
from ortpkg.graph.graph import ArrayInitializer
from ortpkg.graph.types import element_type_of

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenTensors:
    """Tensors and files from the caller; none of them is copied.

    Attributes:
        shared: name → tensor, replacing the initializer of that name, if the model has one.
        external: name → tensor, replacing an initializer whose data lies in another file; each must
            exist.
        files: location → bytes of a file with external data. If there are any, no file is read from
            disk.
    """

    shared: Mapping[str, Array] = field(default_factory=dict)
    external: Mapping[str, Array] = field(default_factory=dict)
    files: Mapping[str, memoryview] = field(default_factory=dict)

    def initializer(self, tensor: onnx.TensorProto, name: str) -> ArrayInitializer | None:
        """Return the replacement of ``tensor`` of the main graph; None if there is none.

        Raises:
            ModelError: if type or shape differ, or an external tensor replaces one that is not
                external.
        """
        array = self.external.get(tensor.name)
        if array is not None and not is_external(tensor):
            raise ModelError(
                f"initializer {quoted(tensor.name)} has no external data, but an external one was"
                " given"
            )
        if array is None:
            array = self.shared.get(tensor.name)
        if array is None:
            return None
        declared = f"{onnx.TensorProto.DataType.Name(tensor.data_type).lower()}{list(tensor.dims)}"
        element_type = element_type_of(array.dtype)
        if int(element_type) != tensor.data_type or array.shape != tuple(tensor.dims):
            made = f"{element_type.name.lower()}{list(array.shape)}"
            raise ModelError(
                f"initializer {quoted(tensor.name)} is {declared}, but {made} was given for it"
            )
        return ArrayInitializer(name, _read_only(array), element_type)

    def verify_external(self, initializers: Mapping[str, object]) -> None:
        """Raise ModelError for an external tensor for which the main graph has no initializer."""
        for name in self.external:
            if name not in initializers:
                raise ModelError(
                    f"an external tensor was given for {quoted(name)}, but the model has no"
                    " initializer"
                )


class FilesInMemory:
    """Files with external data from the caller, used instead of an ``ExternalDataFolder``."""

    def __init__(self, files: Mapping[str, memoryview]) -> None:
        self._files = {
            _normalized(location): MemoryBytes(content) for location, content in files.items()
        }

    def file(self, location: str, where: str) -> MemoryBytes:
        """Return the file at a checked location; ModelNotFoundError naming ``where`` if missing."""
        content = self._files.get(_normalized(location))
        if content is None:
            raise ModelNotFoundError(
                f"{where} has its data in {quoted(location)}, which is not among the given files"
            )
        return content


def _read_only(array: Array) -> Array:
    view = (
        array.view() if array.flags.c_contiguous and array.flags.aligned else array.copy(order="C")
    )
    view.flags.writeable = False
    return view


def _normalized(location: str) -> str:
    return PurePosixPath(location).as_posix()
