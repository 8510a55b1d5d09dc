"""Tensors that a session's caller gives in place of the model's, or of its data files'."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy.typing as npt
import onnx

from ortpkg.errors import ModelError, ModelNotFoundError, quoted
from ortpkg.graph.byte_source import MemoryBytes
from ortpkg.graph.external_data import is_external
from ortpkg.graph.graph import ArrayInitializer
from ortpkg.graph.types import element_type_of

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenTensors:
    """What the caller gives; none of it is copied.

    Attributes:
        shared: name → tensor, in place of the initializer of that name, where the model has one.
        external: name → tensor, in place of an initializer whose data lies in another file; each
            must exist.
        files: location → bytes of a file with external data. Where there are any, no file is read
            from a disk.
    """

    shared: Mapping[str, Array] = field(default_factory=dict)
    external: Mapping[str, Array] = field(default_factory=dict)
    files: Mapping[str, memoryview] = field(default_factory=dict)

    def initializer(self, tensor: onnx.TensorProto, name: str) -> ArrayInitializer | None:
        """What stands for ``tensor`` of the main graph; None where nothing was given for it.

        Raises ModelError where type or shape differ, or an external tensor was given for one that
        is not.
        """
        given = self.external.get(tensor.name)
        if given is not None and not is_external(tensor):
            raise ModelError(
                f"initializer {quoted(tensor.name)} has no external data, but an external one was"
                " given"
            )
        if given is None:
            given = self.shared.get(tensor.name)
        if given is None:
            return None
        stated = f"{onnx.TensorProto.DataType.Name(tensor.data_type).lower()}{list(tensor.dims)}"
        element_type = element_type_of(given.dtype)
        if int(element_type) != tensor.data_type or given.shape != tuple(tensor.dims):
            made = f"{element_type.name.lower()}{list(given.shape)}"
            raise ModelError(
                f"initializer {quoted(tensor.name)} is {stated}, but {made} was given for it"
            )
        return ArrayInitializer(name, _read_only(given), element_type)

    def verify_external(self, initializers: Mapping[str, object]) -> None:
        """Raises ModelError for an external tensor for which the main graph has no initializer."""
        for name in self.external:
            if name not in initializers:
                raise ModelError(
                    f"an external tensor was given for {quoted(name)}, but the model has no"
                    " initializer"
                )


class FilesInMemory:
    """Files with external data that a caller gave, in place of an ``ExternalDataFolder``."""

    def __init__(self, files: Mapping[str, memoryview]) -> None:
        self._files = {
            _normalized(location): MemoryBytes(content) for location, content in files.items()
        }

    def file(self, location: str, where: str) -> MemoryBytes:
        """The file at a checked location. ModelNotFoundError naming ``where``."""
        found = self._files.get(_normalized(location))
        if found is None:
            raise ModelNotFoundError(
                f"{where} has its data in {quoted(location)}, which is not among the given files"
            )
        return found


def _read_only(array: Array) -> Array:
    view = (
        array.view() if array.flags.c_contiguous and array.flags.aligned else array.copy(order="C")
    )
    view.flags.writeable = False
    return view


def _normalized(location: str) -> str:
    return PurePosixPath(location).as_posix()
