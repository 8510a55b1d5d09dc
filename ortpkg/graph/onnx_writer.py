"""Writes graphs as ONNX: a ModelProto, or a file with or without external data.

Nodes are written in topological order. Parts that the reader does not keep (training information,
device configurations, the functions that it inlined) are not written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

import onnx
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

from ortpkg.foundations.errors import ModelError, quoted
from ortpkg.foundations.storage.file_replacement import write_model_file
from ortpkg.graph.external_data import check_location
from ortpkg.graph.graph import Attribute, Graph, Initializer, Node
from ortpkg.graph.initializers import SparseInitializer
from ortpkg.graph.model import Model
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.tensor_codec import encode_raw
from ortpkg.graph.topology import topological_order
from ortpkg.graph.types import ElementType, ValueType
from ortpkg.graph.value_types import value_type_to_proto

TensorWriter = Callable[[Initializer], onnx.TensorProto]

#: Offsets of mapped external data must be multiples of the page size on every system (Windows:
#: 64 KiB).
_EXTERNAL_ALIGNMENT = 65536
_SMALLEST_EXTERNAL_NBYTES = 1024
_FIRST_IR_VERSION_WITH_OVERRIDABLE_INITIALIZERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Functions that turn parts of a model into messages.

    Attributes:
        tensor: makes the message of an initializer.
        attribute_tensor: makes the message of a tensor in an attribute.
        keeps_initializer: returns True if an initializer is written.
        stand_in: returns the node that is written for a node.
    """

    tensor: TensorWriter
    attribute_tensor: TensorWriter
    keeps_initializer: Callable[[Graph, str], bool] = lambda _graph, _name: True
    stand_in: Callable[[Node], Node] = lambda node: node


def to_model_proto(model: Model, *, options: WriteOptions | None = None) -> onnx.ModelProto:
    """Return the model as a message; without ``options``, it contains all data."""
    proto = onnx.ModelProto(
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        model_version=model.model_version,
        doc_string=model.doc_string,
    )
    _add_entries(proto.metadata_props, model.metadata_props)
    for domain, version in model.opset_imports.items():
        proto.opset_import.add(domain=domain, version=version)
    options = options or WriteOptions(tensor=inline_tensor, attribute_tensor=inline_tensor)
    _Writer(model, options).write_graph(model.graph, proto.graph)
    return proto


def save_model(
    model: Model,
    path: str | os.PathLike[str],
    *,
    external_data: str | None = None,
    smallest_external_nbytes: int = _SMALLEST_EXTERNAL_NBYTES,
    options: WriteOptions | None = None,
    replaces: bool = True,
) -> None:
    """Write the model to ``path``, replacing an existing file in one step.

    Args:
        model: the model.
        path: the file to make.
        external_data: name of a file beside ``path`` for larger initializers; default: all in the
            model.
        smallest_external_nbytes: the least size of such initializers; by default 1 KiB.
        options: functions that make parts into messages; the arguments above decide the location of
            initializers.
        replaces: True to replace existing files; if False they stay, and no file is made.

    Raises:
        ModelError: the message would pass protobuf's 2 GiB; external data is then needed.
        ModelFileError: ``external_data`` is not a name inside the folder, a file cannot be written,
            or exists and may not be replaced.
    """
    path = Path(path)
    write_file = partial(write_model_file, replaces=replaces)
    if external_data is None:
        write_file(
            path, lambda file: file.write(_serialized(to_model_proto(model, options=options), path))
        )
        return
    check_location(external_data, "external_data")
    protos: list[onnx.ModelProto] = []

    def write_data(file: BinaryIO) -> None:
        external = _ExternalTensors(file, external_data, smallest_external_nbytes)
        inline = options or WriteOptions(tensor=inline_tensor, attribute_tensor=inline_tensor)
        protos.append(to_model_proto(model, options=replace(inline, tensor=external.write)))

    data_path = path.parent / external_data
    write_file(data_path, write_data)
    try:
        write_file(path, lambda file: file.write(_serialized(protos[0], path)))
    except BaseException:
        if not replaces:
            data_path.unlink(missing_ok=True)
        raise


def _serialized(proto: onnx.ModelProto, path: Path) -> bytes:
    limit = ModelLimits().model_nbytes
    try:
        data = proto.SerializeToString()
    except (EncodeError, ValueError) as error:
        raise ModelError(
            f"{quoted(path)} cannot be written: {quoted(error)}; use external data"
        ) from error
    if len(data) > limit:
        raise ModelError(
            f"{quoted(path)} would have {len(data)} bytes, over protobuf's {limit}; use external"
            " data"
        )
    return bytes(data)


def inline_tensor(initializer: Initializer) -> onnx.TensorProto:
    """Return an initializer as a message that contains its data."""
    tensor = tensor_header(initializer)
    array = initializer.numpy()
    if initializer.element_type is ElementType.STRING:
        tensor.string_data.extend(
            str(text).encode("utf-8", "surrogateescape") for text in array.reshape(-1)
        )
    else:
        tensor.raw_data = encode_raw(array, initializer.element_type)
    return tensor


def tensor_header(initializer: Initializer) -> onnx.TensorProto:
    """Return an initializer's name, type and shape as a message, without data."""
    tensor = onnx.TensorProto(data_type=int(initializer.element_type), dims=list(initializer.shape))
    if initializer.name:
        tensor.name = initializer.name
    return tensor


class _ExternalTensors:
    """Appends the data of big initializers to one file."""

    def __init__(self, file: BinaryIO, location: str, smallest_nbytes: int) -> None:
        self._file = file
        self._location = location
        self._smallest_nbytes = smallest_nbytes
        self._offset = 0

    def write(self, initializer: Initializer) -> onnx.TensorProto:
        """Return the message of a constant, whose bytes go to the file if they are many."""
        if (
            initializer.nbytes < self._smallest_nbytes
            or initializer.element_type is ElementType.STRING
        ):
            return inline_tensor(initializer)
        data = encode_raw(initializer.numpy(), initializer.element_type)
        padding = (
            -self._offset % _EXTERNAL_ALIGNMENT
            if len(data) >= _EXTERNAL_ALIGNMENT
            else -self._offset % 64
        )
        self._file.write(bytes(padding))
        self._file.write(data)
        offset = self._offset + padding
        self._offset = offset + len(data)
        tensor = tensor_header(initializer)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", self._location), ("offset", offset), ("length", len(data))):
            tensor.external_data.add(key=key, value=str(value))
        return tensor


class _Writer:
    def __init__(self, model: Model, options: WriteOptions) -> None:
        self._model = model
        self._options = options

    def write_graph(self, graph: Graph, proto: onnx.GraphProto) -> None:
        """Fill ``proto`` with ``graph`` and the graphs inside its nodes."""
        proto.name = graph.name
        _set_doc_string(proto, graph.doc_string)
        _add_entries(proto.metadata_props, graph.metadata)
        for name, initializer in graph.initializers.items():
            if not self._options.keeps_initializer(graph, name):
                continue
            if isinstance(initializer, SparseInitializer):
                proto.sparse_initializer.append(self._sparse(initializer))
            else:
                proto.initializer.append(self._options.tensor(initializer))
        inputs = list(graph.inputs)
        if (
            self._model.ir_version < _FIRST_IR_VERSION_WITH_OVERRIDABLE_INITIALIZERS
            and graph.parent is None
        ):
            written = (
                name for name in graph.initializers if self._options.keeps_initializer(graph, name)
            )
            inputs += [name for name in written if not graph.is_input(name)]
        for name in inputs:
            proto.input.append(_value_info(graph, name))
        for name in graph.outputs:
            proto.output.append(_value_info(graph, name))
        for name in graph.types:
            if graph.producer_of(name) is not None and not graph.is_output(name):
                proto.value_info.append(_value_info(graph, name))
        for tensor_name, parameters in graph.quantization_annotations.items():
            annotation = proto.quantization_annotation.add(tensor_name=tensor_name)
            _add_entries(annotation.quant_parameter_tensor_names, parameters)
        for index in topological_order(graph):
            self._write_node(self._options.stand_in(graph.node(index)), proto.node.add())

    def _write_node(self, node: Node, proto: onnx.NodeProto) -> None:
        proto.op_type = node.op_type
        proto.domain = node.domain
        proto.name = node.name
        proto.input.extend(node.inputs)
        proto.output.extend(node.outputs)
        _set_doc_string(proto, node.doc_string)
        _add_entries(proto.metadata_props, node.metadata)
        for name, attribute in node.attributes.items():
            self._write_attribute(attribute, proto.attribute.add(name=name))

    def _write_attribute(self, attribute: Attribute, proto: onnx.AttributeProto) -> None:
        proto.type = onnx.AttributeProto.AttributeType.Value(attribute.kind)
        value = attribute.value
        if attribute.kind in ("FLOAT", "INT", "STRING"):
            setattr(proto, attribute.kind[0].lower(), value)
            return
        match attribute.kind:
            case "TENSOR":
                proto.t.CopyFrom(self._options.attribute_tensor(value))
            case "GRAPH":
                self.write_graph(value, proto.g)
            case "SPARSE_TENSOR":
                proto.sparse_tensor.CopyFrom(self._sparse(value))
            case "TYPE_PROTO":
                proto.tp.CopyFrom(_type_proto(value))
            case "FLOATS" | "INTS" | "STRINGS":
                getattr(proto, attribute.kind.lower()).extend(value)
            case "TENSORS":
                proto.tensors.extend(self._options.attribute_tensor(part) for part in value)
            case "GRAPHS":
                for graph in value:
                    self.write_graph(graph, proto.graphs.add())
            case "SPARSE_TENSORS":
                proto.sparse_tensors.extend(self._sparse(part) for part in value)
            case _:
                proto.type_protos.extend(_type_proto(part) for part in value)

    def _sparse(self, initializer: SparseInitializer) -> onnx.SparseTensorProto:
        proto = onnx.SparseTensorProto(dims=list(initializer.shape))
        proto.values.CopyFrom(inline_tensor(initializer.values))
        proto.values.name = initializer.name
        proto.indices.CopyFrom(inline_tensor(initializer.indices))
        return proto


def _value_info(graph: Graph, name: str) -> onnx.ValueInfoProto:
    value_type = graph.types.get(name)
    if value_type is None and name in graph.initializers:
        initializer = graph.initializers[name]
        return onnx.helper.make_tensor_value_info(
            name, int(initializer.element_type), initializer.shape
        )
    proto = onnx.ValueInfoProto(name=name)
    if value_type is not None:
        proto.type.CopyFrom(_type_proto(value_type))
    annotation = graph.annotations.get(name)
    if annotation is not None:
        _set_doc_string(proto, annotation.doc_string)
        _add_entries(proto.metadata_props, annotation.metadata)
        if annotation.denotation:
            proto.type.denotation = annotation.denotation
        for dimension, denotation in zip(
            proto.type.tensor_type.shape.dim, annotation.dim_denotations, strict=False
        ):
            if denotation:
                dimension.denotation = denotation
    return proto


def _type_proto(value_type: ValueType | None) -> onnx.TypeProto:
    return onnx.TypeProto() if value_type is None else value_type_to_proto(value_type)


def _set_doc_string(
    proto: onnx.GraphProto | onnx.NodeProto | onnx.ValueInfoProto, text: str
) -> None:
    if text:
        proto.doc_string = text


def _add_entries(target: Iterable[onnx.StringStringEntryProto], entries: Mapping[str, str]) -> None:
    for key, value in entries.items():
        target.add(key=key, value=value)  # type: ignore[attr-defined]
