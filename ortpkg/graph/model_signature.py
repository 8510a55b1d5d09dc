"""Facts about a model from its file: inputs, outputs, types, needed files.

No weights are read, nothing is run.

Package authoring compares variants by these facts and copies the files that they name; selection
never needs them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import onnx

from ortpkg.foundations.errors import ModelFileError, quoted
from ortpkg.graph.external_data import check_location, external_data_info, is_external
from ortpkg.graph.load_control import DECLARED_NBYTES, polled_parts
from ortpkg.graph.model_file import ModelSource, read_model_file
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.proto_text import entries_of, text_of
from ortpkg.graph.proto_walk import ModelPart, tensors_of, walk_parts
from ortpkg.graph.quantization_word import QuantizationWord
from ortpkg.graph.types import ElementType, Shape, SparseTensorType, TensorType, stored_nbytes
from ortpkg.graph.value_types import element_type_from_number, value_type_from_proto, verify_rank
from ortpkg.graph.weight_shares import WeightShares

MICROSOFT_DOMAIN = "com.microsoft"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSignature:
    """One input or output.

    Attributes:
        name: the name for feeds and results.
        type: ONNX Runtime's text, e.g. "tensor(float)", "seq(tensor(int64))"; "" if the model has
            none.
        shape: numbers, names of symbolic dimensions, None for unnamed ones; None as a whole if even
            the rank is unknown, or the value is not a tensor.
    """

    name: str
    type: str
    shape: Shape | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalFile:
    """A file with external data.

    Attributes:
        location: relative to the model's folder, ``/`` separators; checked to stay inside it.
        nbytes: the least size that contains every tensor in it.
    """

    location: str
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSignature:
    """Facts about a model, as its file declares them.

    Attributes:
        inputs, outputs: in the graph's order, without inputs that have an initializer as default.
        opset_imports: domain ("" for ONNX's own) → version.
        element_types: names of all data types of weights and declared values, sorted ("float",
            "int64").
        quantization: see :meth:`ortpkg.graph.quantization_word.QuantizationWord.word`.
        external_files, context_files: files needed beside the model, in order of appearance;
            context files of EPContext nodes are locations like those of external files.
        source_models: names of the compiled models in EPContext nodes, each once, in order; they
            are not checked.
        has_contexts: True if it has EPContext nodes, with a file or without.
        node_count: including sub-graphs and function bodies.
        few_bits_share: see :meth:`ortpkg.graph.weight_shares.WeightShares.few_bits_share`.
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
    has_contexts: bool
    source_models: tuple[str, ...] = ()
    few_bits_share: float | None = None


_DEFAULT_LIMITS = ModelLimits()


def read_model_signature(
    path: str | os.PathLike[str], *, limits: ModelLimits = _DEFAULT_LIMITS
) -> ModelSignature:
    """Read a model file's signature; neither external data nor contexts are opened.

    Raises:
        ModelNotFoundError: if there is no such file.
        ModelFileError: if it is empty, too large, truncated, not ONNX, or names a file outside its
            folder.
        InvalidGraphError: if types or nesting are wrong.
    """
    return signature_of(path, limits=limits)


def signature_of(source: ModelSource, *, limits: ModelLimits = _DEFAULT_LIMITS) -> ModelSignature:
    """Read the signature of a model file, bytes or a message, like :func:`read_model_signature`."""
    proto = read_model_file(source, limits=limits).proto
    survey = _Survey()
    for part in walk_parts(proto, limits=limits):
        survey.add(part)
    defaults = {tensor.name for tensor in proto.graph.initializer}
    defaults |= {sparse.values.name for sparse in proto.graph.sparse_initializer}
    return ModelSignature(
        inputs=tuple(
            _value_signature(value)
            for value in polled_parts(proto.graph.input, DECLARED_NBYTES)
            if value.name not in defaults
        ),
        outputs=tuple(
            _value_signature(value) for value in polled_parts(proto.graph.output, DECLARED_NBYTES)
        ),
        opset_imports={_domain(opset.domain): opset.version for opset in proto.opset_import},
        ir_version=proto.ir_version,
        element_types=tuple(
            sorted(kind.name.lower() for kind in survey.types - {ElementType.UNDEFINED})
        ),
        quantization=survey.quantization.word(),
        external_files=tuple(
            ExternalFile(location=location, nbytes=nbytes)
            for location, nbytes in survey.external.items()
        ),
        context_files=tuple(survey.contexts),
        metadata_props=entries_of(proto.metadata_props, "metadata"),
        node_count=survey.node_count,
        has_contexts=survey.has_contexts,
        source_models=tuple(survey.source_models),
        few_bits_share=survey.weights.few_bits_share(),
    )


class _Survey:
    """Facts of a model's parts, gathered in one walk since there may be very many parts.

    Attributes:
        node_count, quantization: as in :class:`ModelSignature`.
        weights: sizes of the weights by kind.
        types: element types of tensors and declared values.
        external: location → the least size that contains every tensor in it.
        has_contexts, contexts: True if there are EPContext nodes, and their files, in order.
        source_models: the names of the compiled models in them, in order.
    """

    def __init__(self) -> None:
        self.node_count = 0
        self.types: set[ElementType] = set()
        self.external: dict[str, int] = {}
        self.has_contexts = False
        self.contexts: dict[str, None] = {}
        self.source_models: dict[str, None] = {}
        self.quantization = QuantizationWord()
        self.weights = WeightShares()

    def add(self, part: ModelPart) -> None:
        if isinstance(part, onnx.NodeProto):
            self._add_node(part)
        elif isinstance(part, onnx.GraphProto):
            self.weights.add_initializers(part)
            for values in (part.input, part.output, part.value_info):
                for value in polled_parts(values):
                    self._add_value(value)
        for tensor in tensors_of(part):
            self._add_tensor(tensor)

    def _add_node(self, node: onnx.NodeProto) -> None:
        self.node_count += 1
        self.quantization.add_node(node)
        self.weights.add_node(node)
        if node.op_type == "EPContext" and node.domain == MICROSOFT_DOMAIN:
            self.has_contexts = True
            attributes = {attribute.name: attribute for attribute in node.attribute}
            location = _context_file(node.name, attributes)
            if location is not None:
                self.contexts[location] = None
            if source := _text(attributes, "onnx_model_filename"):
                self.source_models[source] = None

    def _add_value(self, value: onnx.ValueInfoProto) -> None:
        value_type = value_type_from_proto(value.type, f"value {quoted(value.name)}")
        if isinstance(value_type, TensorType | SparseTensorType):
            self.types.add(value_type.element_type)

    def _add_tensor(self, tensor: onnx.TensorProto) -> None:
        where = f"tensor {quoted(tensor.name)}"
        verify_rank(len(tensor.dims), where)
        self.quantization.add_tensor(tensor)
        self.types.add(element_type_from_number(tensor.data_type, where))
        if is_external(tensor):
            info = external_data_info(tensor)
            length = info.length if info.length is not None else _least_nbytes(tensor)
            known_nbytes = self.external.get(info.location, 0)
            self.external[info.location] = max(known_nbytes, info.offset + length)


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


def _least_nbytes(tensor: onnx.TensorProto) -> int:
    element_type = element_type_from_number(tensor.data_type, f"tensor {quoted(tensor.name)}")
    if element_type in (ElementType.UNDEFINED, ElementType.STRING):
        raise ModelFileError(
            f"tensor {quoted(tensor.name)} has external data but no type that can have it"
        )
    if any(dimension < 0 for dimension in tensor.dims):
        raise ModelFileError(f"tensor {quoted(tensor.name)} has a negative dimension")
    return stored_nbytes(element_type, prod(tensor.dims))


def _context_file(node: str, attributes: Mapping[str, onnx.AttributeProto]) -> str | None:
    """Return the file of the EPContext node of that name; None if its context is embedded."""
    embedded = attributes["embed_mode"].i if "embed_mode" in attributes else 1
    location = _text(attributes, "ep_cache_context")
    if embedded or not location:
        return None
    check_location(location, f"EPContext node {quoted(node)}")
    return location


def _text(attributes: Mapping[str, onnx.AttributeProto], name: str) -> str:
    return attributes[name].s.decode("utf-8", "replace") if name in attributes else ""
