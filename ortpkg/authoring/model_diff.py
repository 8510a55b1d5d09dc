"""Compare two model files by what they compute, not by how they are stored.

Weights are streamed and compared by their bytes. Their place (in the model, in a data file, packed
in any order) makes no difference, nor do names of nodes, documentation, or the order of fields.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from ortpkg.authoring.model_facts import read_model_facts
from ortpkg.authoring.model_weights import ModelWeights, read_model_weights
from ortpkg.foundations.errors import quoted
from ortpkg.foundations.host.cores import usable_cores
from ortpkg.foundations.storage.composed_file import ComposedFile, FileRange
from ortpkg.graph.byte_source import MappedFile
from ortpkg.graph.external_data import external_data_info, is_external
from ortpkg.graph.initializers import TensorReader
from ortpkg.graph.model_file import read_model_file
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.model_signature import ModelSignature, ValueSignature
from ortpkg.graph.proto_text import text_of
from ortpkg.graph.proto_walk import ModelPart, walk_parts
from ortpkg.graph.tensor_codec import decode_raw, encode_raw
from ortpkg.graph.tensor_messages import TensorMessage
from ortpkg.graph.types import ElementType
from ortpkg.graph.value_types import element_type_from_number

# largest weight whose numbers are compared, not only its bytes
_MOST_COMPARED_NBYTES = 64 * 1024 * 1024
_DEFAULT_LIMITS = ModelLimits()

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Value that differs; None for a missing one."""

    what: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """Initializer of one side: ``type`` in lower case, ``sha256`` of its bytes."""

    type: str
    shape: tuple[int, ...]
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightChange:
    """Initializer that differs, or that one side lacks (None).

    ``largest_difference`` is max |new - old| if both have the same type and shape, are numbers and
    not too large.
    """

    name: str
    old: Weight | None
    new: Weight | None
    largest_difference: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDiff:
    """Differences between two models.

    Attributes:
        facts: IR version, opsets, metadata, inputs and outputs.
        operators: operator ("domain::Name") → old and new number of its nodes, if they differ.
        nodes_removed, nodes_added: nodes that differ in operator, attributes or connections, and
            sub-graphs that differ in their inputs or outputs.
        weights: in the order of the old model, then new ones.
        equal_weights: number of equal weights.
    """

    facts: tuple[Change, ...] = ()
    operators: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    nodes_removed: int = 0
    nodes_added: int = 0
    weights: tuple[WeightChange, ...] = ()
    equal_weights: int = 0

    @property
    def is_empty(self) -> bool:
        """True if nothing differs: no stated fact, no operator, no node, no weight."""
        return not (
            self.facts or self.operators or self.nodes_removed or self.nodes_added or self.weights
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedModel:
    """Model file, the folder of its data files, and ``is_bare`` if it belongs to no package."""

    path: Path
    data_folder: Path
    is_bare: bool = False


def diff_models(old: ComparedModel, new: ComparedModel) -> ModelDiff:
    """Compare two model files; ModelError if one is damaged."""
    ours, theirs = _Model(old), _Model(new)
    operators = {
        name: (ours.operators[name], theirs.operators[name])
        for name in ours.operators | theirs.operators
        if ours.operators[name] != theirs.operators[name]
    }
    weights = _diff_weights(ours.initializers, theirs.initializers)
    return ModelDiff(
        facts=tuple(_diff_signatures(ours.signature, theirs.signature)),
        operators=dict(sorted(operators.items())),
        nodes_removed=(ours.nodes - theirs.nodes).total(),
        nodes_added=(theirs.nodes - ours.nodes).total(),
        weights=weights,
        equal_weights=len(ours.initializers.keys() & theirs.initializers.keys())
        - sum(weight.old is not None and weight.new is not None for weight in weights),
    )


def diff_mappings(label: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """Yield a change for each key whose value differs."""
    for key in dict.fromkeys((*old, *new)):
        if old.get(key) != new.get(key):
            yield Change(what=f"{label} {key}", old=old.get(key), new=new.get(key))


class _Model:
    """Parts of one model that are compared."""

    def __init__(self, model: ComparedModel) -> None:
        self.signature = read_model_facts(model.path).signature
        self._weights = read_model_weights(
            model.path, data_folder=model.data_folder, is_bare=model.is_bare
        )
        self._external = {
            _external_key(tensor.message.header): tensor.data for tensor in self._weights.external
        }
        self.initializers = _initializers(self._weights)
        proto = read_model_file(model.path, limits=_DEFAULT_LIMITS).proto
        self.operators: Counter[str] = Counter()
        self.nodes: Counter[str] = Counter()
        for part in walk_parts(proto, limits=_DEFAULT_LIMITS):
            self._count(part)

    def _count(self, part: ModelPart) -> None:
        if isinstance(part, onnx.NodeProto):
            self.operators[_operator(part)] += 1
            self.nodes[self._digest_of(part)] += 1
        elif isinstance(part, onnx.GraphProto):
            self.nodes[_digest_of_interface(part)] += 1
            for sparse in part.sparse_initializer:
                stored = onnx.SparseTensorProto()
                stored.CopyFrom(sparse)
                self._replace_sparse_data_by_digest(stored)
                self.nodes[_sha256(stored.SerializeToString(deterministic=True))] += 1
        else:
            copied = onnx.FunctionProto()
            copied.CopyFrom(part)
            for name in ("node", "doc_string", "value_info", "metadata_props"):
                copied.ClearField(name)
            self.nodes[_sha256(copied.SerializeToString(deterministic=True))] += 1

    def _digest_of(self, node: onnx.NodeProto) -> str:
        """Return a digest that is equal for nodes that do the same to the same values.

        Sub-graphs are compared on their own.
        """
        copied = onnx.NodeProto()
        copied.CopyFrom(node)
        for name in ("name", "doc_string", "metadata_props"):
            copied.ClearField(name)
        for attribute in copied.attribute:
            attribute.ClearField("doc_string")
            attribute.ClearField("g")
            attribute.ClearField("graphs")
            for tensor in (
                (attribute.t, *attribute.tensors) if attribute.HasField("t") else attribute.tensors
            ):
                self._replace_data_by_digest(tensor)
            if attribute.HasField("sparse_tensor"):
                self._replace_sparse_data_by_digest(attribute.sparse_tensor)
            for sparse in attribute.sparse_tensors:
                self._replace_sparse_data_by_digest(sparse)
        ordered = sorted(
            attribute.SerializeToString(deterministic=True) for attribute in copied.attribute
        )
        copied.ClearField("attribute")
        return _sha256(b"\0".join([copied.SerializeToString(deterministic=True), *ordered]))

    def _replace_data_by_digest(self, tensor: onnx.TensorProto) -> None:
        """Replace the place of external data by the digest of the data."""
        tensor.ClearField("doc_string")
        if is_external(tensor):
            data = self._external[_external_key(tensor)]
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = ComposedFile((data,)).sha256().encode()

    def _replace_sparse_data_by_digest(self, sparse: onnx.SparseTensorProto) -> None:
        self._replace_data_by_digest(sparse.values)
        self._replace_data_by_digest(sparse.indices)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Initializer:
    """Initializer and the place of its bytes: in a file, or inside its message."""

    type: ElementType
    shape: tuple[int, ...]
    data: FileRange | bytes

    @property
    def nbytes(self) -> int:
        return len(self.data) if isinstance(self.data, bytes) else self.data.nbytes

    def digest(self) -> str:
        """Return the SHA-256 of the bytes as they are stored."""
        return (
            _sha256(self.data)
            if isinstance(self.data, bytes)
            else ComposedFile((self.data,)).sha256()
        )

    def array(self) -> Array:
        """Return the values; data in a file is mapped, not read."""
        if isinstance(self.data, bytes):
            data = np.frombuffer(self.data, dtype=np.uint8)
        else:
            data = MappedFile(self.data.path).array(
                self.data.offset, self.data.nbytes, alignment=16
            )
        return decode_raw(data, self.type, self.shape)


def _external_key(tensor: onnx.TensorProto) -> tuple[Any, ...]:
    info = external_data_info(tensor)
    return info.location, info.offset, tensor.data_type, tuple(tensor.dims)


def _initializers(model: ModelWeights) -> dict[str, _Initializer]:
    """Map name → initializer; names that several graphs use get a number."""
    stored = {tensor.message.start: tensor.data for tensor in (*model.external, *model.embedded)}
    initializers: dict[str, _Initializer] = {}
    counts: Counter[str] = Counter()
    for message in model.message.tensors:
        if message.is_initializer:
            name = text_of(message.header.name, "tensor name")
            counts[name] += 1
            key = name if counts[name] == 1 else f"{name}#{counts[name]}"
            initializers[key] = _initializer(message, stored.get(message.start))
    return initializers


def _initializer(message: TensorMessage, data: FileRange | None) -> _Initializer:
    header = message.header
    element_type = element_type_from_number(header.data_type, f"tensor {quoted(header.name)}")
    shape = tuple(header.dims)
    if data is not None:
        return _Initializer(type=element_type, shape=shape, data=data)
    if element_type is ElementType.STRING:
        content = b"".join(len(text).to_bytes(8, "little") + text for text in header.string_data)
        return _Initializer(type=element_type, shape=shape, data=content)
    array = TensorReader(folder=None, limits=_DEFAULT_LIMITS).initializer(header).numpy()
    return _Initializer(type=element_type, shape=shape, data=encode_raw(array, element_type))


def _diff_weights(
    old: Mapping[str, _Initializer], new: Mapping[str, _Initializer]
) -> tuple[WeightChange, ...]:
    names = list(dict.fromkeys((*old, *new)))
    with ThreadPoolExecutor(usable_cores(), thread_name_prefix="ortpkg-hash") as pool:
        ours, theirs = (
            pool.map(_weight, map(old.get, names)),
            pool.map(_weight, map(new.get, names)),
        )
        # One after another: comparing numbers needs several times the memory of a weight.
        return tuple(
            WeightChange(
                name=name,
                old=our,
                new=their,
                largest_difference=_largest_difference(old.get(name), new.get(name)),
            )
            for name, our, their in zip(names, ours, theirs, strict=True)
            if our != their
        )


def _weight(initializer: _Initializer | None) -> Weight | None:
    if initializer is None:
        return None
    return Weight(
        type=initializer.type.name.lower(), shape=initializer.shape, sha256=initializer.digest()
    )


def _largest_difference(old: _Initializer | None, new: _Initializer | None) -> float | None:
    if old is None or new is None or (old.type, old.shape) != (new.type, new.shape):
        return None
    if (
        old.type in (ElementType.STRING, ElementType.BOOL)
        or not 0 < old.nbytes <= _MOST_COMPARED_NBYTES
    ):
        return None
    is_complex = old.type in (ElementType.COMPLEX64, ElementType.COMPLEX128)
    wide = np.complex128 if is_complex else np.float64
    with np.errstate(all="ignore"):
        difference = np.abs(new.array().astype(wide) - old.array().astype(wide))
    finite = difference[np.isfinite(difference)]
    return float(finite.max()) if finite.size else None


def _diff_signatures(old: ModelSignature, new: ModelSignature) -> Iterator[Change]:
    if old.ir_version != new.ir_version:
        yield Change(what="IR version", old=old.ir_version, new=new.ir_version)
    yield from diff_mappings("opset", _opsets(old), _opsets(new))
    for kind, ours, theirs in (
        ("input", old.inputs, new.inputs),
        ("output", old.outputs, new.outputs),
    ):
        yield from diff_mappings(kind, dict(map(_described, ours)), dict(map(_described, theirs)))
        order, other = [value.name for value in ours], [value.name for value in theirs]
        if order != other and sorted(order) == sorted(other):
            yield Change(what=f"order of {kind}s", old=order, new=other)
    yield from diff_mappings("metadata", old.metadata_props, new.metadata_props)


def _opsets(signature: ModelSignature) -> dict[str, int]:
    return {domain or "ai.onnx": version for domain, version in signature.opset_imports.items()}


def _described(value: ValueSignature) -> tuple[str, str]:
    if value.shape is None:
        return value.name, value.type
    return (
        value.name,
        f"{value.type}[{', '.join('?' if size is None else str(size) for size in value.shape)}]",
    )


def _operator(node: onnx.NodeProto) -> str:
    domain = text_of(node.domain, "operator domain") or "ai.onnx"
    return f"{domain}::{text_of(node.op_type, 'operator')}"


def _digest_of_interface(graph: onnx.GraphProto) -> str:
    names = [text_of(value.name, "value name") for value in (*graph.input, *graph.output)]
    return _sha256("\0".join([str(len(graph.input)), *names]).encode("utf-8", "surrogateescape"))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
