"""Digests of a partition's structure and weights, by which its contexts are found.

Hashing hundreds of megabytes of weights takes longer than loading a context of them. So digests of
weights that are mapped from files are stored with the files' stamps; a changed file is hashed
again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import onnx

from ortpkg.foundations.storage.fact_cache import read_fact, write_fact
from ortpkg.foundations.storage.file_stamp import file_stamp
from ortpkg.graph.byte_source import MappedFile
from ortpkg.graph.graph import Graph, Initializer
from ortpkg.graph.initializers import MappedInitializer
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_writer import WriteOptions, tensor_header, to_model_proto
from ortpkg.graph.tensor_codec import decode_raw
from ortpkg.graph.types import PACKED_BITS, stored_nbytes

_IR_VERSION = 10
_KIND = "weights_digests"
_MOST_KEPT = 2000
#: Number of packed weights that are hashed at once; whole bytes for each width.
_PACKED_PART = 3 << 20
#: Least bytes of weights for which looking up a stored digest is faster than hashing.
_LEAST_REMEMBERED_NBYTES = 8 << 20


def partition_digests(body: Graph) -> tuple[str, str]:
    """Return the SHA-256 of a partition's structure (without names) and weights (with names)."""
    options = WriteOptions(tensor=tensor_header, attribute_tensor=_hashed)
    proto = to_model_proto(Model(graph=body, ir_version=_IR_VERSION), options=options)
    proto.graph.name = ""
    values = sorted(proto.graph.value_info, key=lambda value: value.name)
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(values)
    structure = hashlib.sha256(proto.SerializeToString(deterministic=True))
    if elements := [
        (name, body.known_elements[name]) for name in body.inputs if name in body.known_elements
    ]:
        structure.update(repr(elements).encode())
    graph_digest = structure.hexdigest()
    initializers = [body.initializers[name] for name in sorted(body.initializers)]
    key = _key(initializers)
    remembered = read_fact(_KIND, key) if key is not None else None
    if isinstance(remembered, str):
        return graph_digest, remembered
    digest = _weights_digest(initializers)
    if key is not None and key == _key(initializers):
        write_fact(_KIND, key, digest, keep=_MOST_KEPT)
    return graph_digest, digest


def _weights_digest(initializers: list[Initializer]) -> str:
    weights = hashlib.sha256()
    for initializer in initializers:
        weights.update(_header(initializer))
        for part in _parts_of(initializer):
            weights.update(_bytes_of(part))
    return weights.hexdigest()


def _parts_of(initializer: Initializer) -> Iterator[Any]:
    """Yield the elements as arrays; those that are packed in a file a few at a time.

    An array of packed elements has a byte or more for each, in memory that stays until the
    initializer is forgotten.
    """
    if (
        not isinstance(initializer, MappedInitializer)
        or initializer.element_type not in PACKED_BITS
    ):
        yield initializer.numpy()
        return
    count = prod(initializer.shape)
    for start in range(0, count, _PACKED_PART):
        shape = (min(_PACKED_PART, count - start),)
        offset = initializer.offset + stored_nbytes(initializer.element_type, start)
        nbytes = stored_nbytes(initializer.element_type, shape[0])
        yield decode_raw(initializer.source.array(offset, nbytes), initializer.element_type, shape)


def _bytes_of(array: Any) -> Any:
    """Return the bytes of an array, which is not copied unless it holds objects or gaps."""
    if array.dtype.hasobject or not array.flags.c_contiguous or not array.size:
        return array.tobytes()
    return array.reshape(-1).view(np.uint8).data


def _header(initializer: Initializer) -> bytes:
    return f"{initializer.name}\0{initializer.element_type.name}\0{initializer.shape}\0".encode()


def _key(initializers: list[Initializer]) -> dict[str, object] | None:
    """Return the stamps on which the weights' digest depends.

    None unless the weights lie in settled files, except for a few, which are hashed here.
    """
    in_files = sum(initializer.nbytes for initializer in initializers if _is_mapped(initializer))
    in_memory = sum(initializer.nbytes for initializer in initializers) - in_files
    if in_files < max(_LEAST_REMEMBERED_NBYTES, 2 * in_memory):
        return None
    locations = hashlib.sha256()
    files: dict[str, list[int]] = {}
    for initializer in initializers:
        locations.update(_header(initializer))
        if not (
            isinstance(initializer, MappedInitializer)
            and isinstance(initializer.source, MappedFile)
        ):
            locations.update(hashlib.sha256(_bytes_of(initializer.numpy())).digest())
            continue
        path = str(initializer.source.path)
        if path not in files:
            stamp = file_stamp(initializer.source.path)
            if stamp is None or not stamp.is_settled():
                return None
            files[path] = list(stamp)
        locations.update(f"{path}\0{initializer.offset}\0".encode())
    return {"files": files, "places": locations.hexdigest()}


def _is_mapped(initializer: Initializer) -> bool:
    return isinstance(initializer, MappedInitializer) and isinstance(initializer.source, MappedFile)


def _hashed(tensor: Any) -> onnx.TensorProto:
    header = tensor_header(tensor)
    header.doc_string = hashlib.sha256(tensor.numpy().tobytes()).hexdigest()
    return header
