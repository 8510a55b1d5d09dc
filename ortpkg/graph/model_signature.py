"""What a model file says about itself: inputs, outputs, types, needed files.

No weights are read, nothing is run.

Authoring compares variants by it and copies the files that it names; selection never needs it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import onnx

from ortpkg.errors import ModelFileError, quoted
from ortpkg.graph.external_data import check_location, external_data_info, is_external
from ortpkg.graph.model_file import ModelFile, ModelSource, read_model_file
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.proto_text import entries_of, text_of
from ortpkg.graph.proto_walk import walk_graphs, walk_nodes, walk_tensors
from ortpkg.graph.quantization_word import quantization_of
from ortpkg.graph.types import ElementType, Shape, SparseTensorType, TensorType, stored_nbytes
from ortpkg.graph.value_types import element_type_from_number, value_type_from_proto

MICROSOFT_DOMAIN = "com.microsoft"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSignature:
    """One input or output.

    Attributes:
        name: as fed.
        type: ONNX Runtime's text, e.g. "tensor(float)", "seq(tensor(int64))"; "" where the model
            states none.
        shape: numbers, names of symbolic dimensions, None for unnamed ones; None as a whole where
            not even the rank is known, or the value is not a tensor.
    """

    name: str
    type: str
    shape: Shape | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalFile:
    """A file with external data.

    Attributes:
        location: relative to the model's folder, ``/`` separators; checked to stay inside it.
        nbytes: the least size that serves every tensor in it.
    """

    location: str
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSignature:
    """A model file's own account of itself.

    Attributes:
        inputs, outputs: in the graph's order; inputs that an initializer gives a default are left
            out.
        opset_imports: domain ("" for ONNX's own) → version.
        element_types: names of all data types of weights and declared values, sorted ("float",
            "int64").
        quantization: see :func:`ortpkg.graph.quantization_word.quantization_of`.
        external_files, context_files: files needed beside the model, in order of appearance; of
            contexts of EPContext nodes the locations, as of external files.
        node_count: with sub-graphs and function bodies.
    """

    inputs: tuple[ValueSignature, ...]
    outputs: tuple[ValueSignature, ...]
    opset_imports: Mapping[str, int]
    ir_version: int
    element_types: tuple[str, ...]
    quantization: str
    external_files: tuple[ExternalFile, ...]
    context_files: tuple[str, ...]
    metadata_props: Mapping[str, str]
    node_count: int


_DEFAULT_LIMITS = ModelLimits()


def read_model_signature(
    path: str | os.PathLike[str], *, limits: ModelLimits = _DEFAULT_LIMITS
) -> ModelSignature:
    """Reads a model file's signature; neither external data nor contexts are opened.

    Raises ModelNotFoundError where there is no such file; ModelFileError where it is empty, too
    large, truncated, not ONNX, or names a file outside its folder; InvalidGraphError where types or
    nesting are wrong.
    """
    return signature_of(path, limits=limits)


def signature_of(source: ModelSource, *, limits: ModelLimits = _DEFAULT_LIMITS) -> ModelSignature:
    """As :func:`read_model_signature`, for bytes and messages too."""
    model_file = read_model_file(source, limits=limits)
    proto = model_file.proto
    nodes = list(walk_nodes(proto, limits=limits))
    tensors = list(walk_tensors(proto, limits=limits))
    defaults = {tensor.name for tensor in proto.graph.initializer}
    defaults |= {sparse.values.name for sparse in proto.graph.sparse_initializer}
    return ModelSignature(
        inputs=tuple(
            _value_signature(value) for value in proto.graph.input if value.name not in defaults
        ),
        outputs=tuple(_value_signature(value) for value in proto.graph.output),
        opset_imports={_domain(opset.domain): opset.version for opset in proto.opset_import},
        ir_version=proto.ir_version,
        element_types=_element_types(model_file, tensors, limits),
        quantization=quantization_of(nodes, tensors),
        external_files=_external_files(tensors),
        context_files=_context_files(nodes),
        metadata_props=entries_of(proto.metadata_props, "metadata"),
        node_count=len(nodes),
    )


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else text_of(domain, "operator domain")


def _value_signature(value: onnx.ValueInfoProto) -> ValueSignature:
    value_type = value_type_from_proto(value.type, f"value {quoted(value.name)}")
    shape = value_type.shape if isinstance(value_type, TensorType | SparseTensorType) else None
    return ValueSignature(
        name=text_of(value.name, "value name"),
        type="" if value_type is None else str(value_type),
        shape=shape,
    )


def _element_types(
    model_file: ModelFile, tensors: Iterable[onnx.TensorProto], limits: ModelLimits
) -> tuple[str, ...]:
    found = {
        element_type_from_number(tensor.data_type, f"tensor {quoted(tensor.name)}")
        for tensor in tensors
    }
    for graph in walk_graphs(model_file.proto, limits=limits):
        for values in (graph.input, graph.output, graph.value_info):
            for value in values:
                value_type = value_type_from_proto(value.type, f"value {quoted(value.name)}")
                if isinstance(value_type, TensorType | SparseTensorType):
                    found.add(value_type.element_type)
    return tuple(sorted(kind.name.lower() for kind in found - {ElementType.UNDEFINED}))


def _external_files(tensors: Iterable[onnx.TensorProto]) -> tuple[ExternalFile, ...]:
    needed: dict[str, int] = {}
    for tensor in tensors:
        if is_external(tensor):
            info = external_data_info(tensor)
            length = info.length if info.length is not None else _least_nbytes(tensor)
            needed[info.location] = max(needed.get(info.location, 0), info.offset + length)
    return tuple(
        ExternalFile(location=location, nbytes=nbytes) for location, nbytes in needed.items()
    )


def _least_nbytes(tensor: onnx.TensorProto) -> int:
    element_type = element_type_from_number(tensor.data_type, f"tensor {quoted(tensor.name)}")
    if element_type in (ElementType.UNDEFINED, ElementType.STRING):
        raise ModelFileError(
            f"tensor {quoted(tensor.name)} has external data but no type that can have it"
        )
    if any(dimension < 0 for dimension in tensor.dims):
        raise ModelFileError(f"tensor {quoted(tensor.name)} has a negative dimension")
    return stored_nbytes(element_type, prod(tensor.dims))


def _context_files(nodes: Iterable[onnx.NodeProto]) -> tuple[str, ...]:
    """The files of EPContext nodes, each location once."""
    found: dict[str, None] = {}  # in order
    for node in nodes:
        if node.op_type != "EPContext" or node.domain != MICROSOFT_DOMAIN:
            continue
        attributes = {attribute.name: attribute for attribute in node.attribute}
        embedded = attributes["embed_mode"].i if "embed_mode" in attributes else 1
        location = _text(attributes, "ep_cache_context")
        if embedded or not location:
            continue
        check_location(location, f"EPContext node {quoted(node.name)}")
        found[location] = None
    return tuple(found)


def _text(attributes: Mapping[str, onnx.AttributeProto], name: str) -> str:
    return attributes[name].s.decode("utf-8", "replace") if name in attributes else ""
