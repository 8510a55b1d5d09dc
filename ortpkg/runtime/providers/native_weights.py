"""Passes large weights of a partition to a native library outside of the model's message.

Weights are not copied. The library maps the original model's files itself, or gets memory: a mapped
file, or an array. ``NativeLibrary.weight_form`` says which of these it takes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path, PurePath

import numpy as np
import onnx

from ortpkg.foundations.storage.file_stamp import FileStamp, file_stamp
from ortpkg.graph.byte_source import MappedFile
from ortpkg.graph.graph import Graph, Initializer
from ortpkg.graph.initializers import MappedInitializer, SparseInitializer
from ortpkg.graph.onnx_writer import tensor_header
from ortpkg.graph.types import PACKED_BITS, ElementType, numpy_dtype, stored_nbytes
from ortpkg.runtime.providers.library_traits import WeightForm
from ortpkg.runtime.providers.native_library import FileRange, NativeWeight

#: Smaller weights, such as sizes and axes, stay in the message: libraries read them to convert it.
SMALLEST_NBYTES = 1024
#: Location of weights that are passed by name; no file of this name is ever read.
_NAMED_LOCATION = "in-memory"
#: Elements of any type are passed as numpy's words of 1, 2, 4 or 8 bytes.
_LARGEST_WORD_NBYTES = 8


class ConstantWriter:
    """Writer of one partition's constants: small ones into the message, others outside of it.

    Attributes:
        weights, folder, files, weights_nbytes: for :class:`NativeModel`; complete when the message
            is written.
    """

    def __init__(self, body: Graph, form: WeightForm) -> None:
        self._body = body
        self._form = form
        reads_files = form in (WeightForm.EXTERNAL, WeightForm.INPUTS)
        self._paths = _readable_files(body) if reads_files else {}
        self._common_folder = _common_folder(self._paths.values())
        self.weights: dict[str, NativeWeight] = {}
        self.folder = ""
        self.files: dict[str, FileStamp] = {}
        self.weights_nbytes = 0

    def is_input(self, graph: Graph, name: str) -> bool:
        """Return True if a constant becomes an input of the graph; adds it to ``weights`` then."""
        if self._form is not WeightForm.INPUTS or graph is not self._body:
            return False
        initializer = graph.initializers[name]
        nbytes = _large_nbytes(initializer)
        weight = self._weight(initializer, nbytes) if nbytes and not graph.is_input(name) else None
        if weight is not None:
            self.weights[name] = weight
            self.weights_nbytes += nbytes
        return weight is not None

    def external(self, initializer: Initializer) -> onnx.TensorProto | None:
        """Return the message of a constant without its data; None if it has to contain them."""
        nbytes = _large_nbytes(initializer)
        if self._form not in (WeightForm.EXTERNAL, WeightForm.NAMED) or not nbytes:
            return None
        file = self._file(initializer, nbytes)
        if file is not None and self._common_folder:
            location = PurePath(file.path).relative_to(self._common_folder).as_posix()
            self.folder = self._common_folder
            self.files[file.path] = file.stamp
            return self._external_tensor(initializer, location, file.offset, nbytes)
        is_of_body = self._body.initializers.get(initializer.name) is initializer
        # onnxruntime's values have whole elements, no packed ones
        if initializer.element_type in PACKED_BITS or not is_of_body:
            return None
        weight = _own_memory(initializer, is_aligned=False)
        if weight is None:
            return None
        self.weights[initializer.name] = weight
        return self._external_tensor(initializer, _NAMED_LOCATION, 0, nbytes)

    def _external_tensor(
        self, initializer: Initializer, location: str, offset: int, nbytes: int
    ) -> onnx.TensorProto:
        self.weights_nbytes += nbytes
        tensor = tensor_header(initializer)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", offset), ("length", nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        return tensor

    def _weight(self, initializer: Initializer, nbytes: int) -> NativeWeight | None:
        """Return a constant to pass by name; None if its type has no array in memory."""
        file = self._file(initializer, nbytes)
        if file is None or not isinstance(initializer, MappedInitializer):
            return _own_memory(initializer)
        return NativeWeight(
            element_type=int(initializer.element_type),
            shape=initializer.shape,
            data=initializer.source.array(file.offset, nbytes).data,
            file=file,
        )

    def _file(self, initializer: Initializer, nbytes: int) -> FileRange | None:
        """Return its range in a file; None if it is in no file, or unaligned there."""
        if not isinstance(initializer, MappedInitializer):
            return None
        source = initializer.source
        if not isinstance(source, MappedFile) or not self._paths.get(source):
            return None
        is_packed = initializer.element_type in PACKED_BITS
        alignment = 1 if is_packed else numpy_dtype(initializer.element_type).itemsize
        if initializer.offset % alignment:
            return None
        path = self._paths[source]
        return FileRange(path=path, offset=initializer.offset, nbytes=nbytes, stamp=source.stamp)


def _large_nbytes(initializer: Initializer) -> int:
    """Return the bytes of a large constant; 0 for a small or sparse one, and for strings."""
    if initializer.element_type is ElementType.STRING or isinstance(initializer, SparseInitializer):
        return 0
    nbytes = stored_nbytes(initializer.element_type, prod(initializer.shape))
    return nbytes if nbytes >= SMALLEST_NBYTES else 0


def _own_memory(initializer: Initializer, *, is_aligned: bool = True) -> NativeWeight | None:
    """Return a constant in memory; None for packed elements and on big-endian machines.

    Args:
        initializer: the constant.
        is_aligned: True if the library computes on this memory: then unaligned bytes of a file are
            read into memory instead of mapped.
    """
    is_plain = initializer.element_type not in PACKED_BITS and sys.byteorder == "little"
    if not is_plain or numpy_dtype(initializer.element_type).itemsize > _LARGEST_WORD_NBYTES:
        return None
    width = numpy_dtype(initializer.element_type).itemsize
    if isinstance(initializer, MappedInitializer):
        # not numpy(), which keeps a copy that had to be read for its alignment
        nbytes = stored_nbytes(initializer.element_type, prod(initializer.shape))
        flat = initializer.source.array(initializer.offset, nbytes, width if is_aligned else 1)
    else:
        flat = np.ascontiguousarray(initializer.numpy()).reshape(-1).view(np.uint8)
    return NativeWeight(
        element_type=int(initializer.element_type), shape=initializer.shape, data=flat.data
    )


def _readable_files(body: Graph) -> dict[MappedFile, str]:
    """Return mapped file → real path; "" if the path now leads to another file or is no Unicode."""
    paths: dict[MappedFile, str] = {}
    for initializer in _initializers_in(body):
        source = initializer.source if isinstance(initializer, MappedInitializer) else None
        if not isinstance(source, MappedFile) or source in paths:
            continue
        path = os.path.realpath(source.path)
        is_same = source.stamp.is_same_content(file_stamp(Path(path)))
        paths[source] = path if is_same and _is_unicode(path) else ""
    return paths


def _initializers_in(graph: Graph) -> Iterator[Initializer]:
    """Yield the constants of a graph and of those inside its nodes."""
    yield from graph.initializers.values()
    for node in graph.nodes:
        for subgraph in node.subgraphs.values():
            yield from _initializers_in(subgraph)


def _common_folder(paths: Iterable[str]) -> str:
    """Return the deepest folder above all files; "" if there is none, as with two drives."""
    folders = [os.path.dirname(path) for path in paths if path]  # noqa: PTH120 - for commonpath
    try:
        return os.path.commonpath(folders) if folders else ""
    except ValueError:
        return ""


def _is_unicode(path: str) -> bool:
    """Return True if a path can be written into a message, whose texts are UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in path)
