"""Reads ONNX models into graphs: the only module that reads ModelProto for the engine.

It iterates over nodes, and recurses only into sub-graphs and function calls, whose nesting is
limited. Model-local functions are inlined on the way: their nodes keep the version of the operator
in the function's own imports.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import onnx
import onnx.defs

from ortpkg.foundations.errors import InvalidGraphError, quoted
from ortpkg.graph.byte_source import ByteSource
from ortpkg.graph.external_data import ExternalDataFolder
from ortpkg.graph.given_tensors import FilesInMemory, GivenTensors
from ortpkg.graph.graph import MICROSOFT_DOMAIN, ONNX_DOMAIN, Attribute, Graph, ValueAnnotation
from ortpkg.graph.graph_checks import verify_graph
from ortpkg.graph.initializers import TensorReader
from ortpkg.graph.load_control import (
    CONSTANT_NBYTES,
    DECLARED_NBYTES,
    GRAPH_NBYTES,
    NODE_NBYTES,
    PART_NBYTES,
    poll_load,
    polled_parts,
)
from ortpkg.graph.model import Model
from ortpkg.graph.model_file import ModelFile, ModelSource, read_model_file
from ortpkg.graph.model_functions import (
    ModelFunctions,
    call_scope,
    operator_domain,
    read_opset_imports,
)
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.name_scope import NameScope
from ortpkg.graph.onnx_attributes import attribute_kind, attribute_value
from ortpkg.graph.operator_schemas import resolve_since_version
from ortpkg.graph.proto_text import entries_of, text_of
from ortpkg.graph.schema_checks import verify_schemas
from ortpkg.graph.value_types import value_type_from_proto

_DEFAULT_LIMITS = ModelLimits()
_NOTHING_GIVEN = GivenTensors()
_IMPLIED_OPSETS = {ONNX_DOMAIN: onnx.defs.onnx_opset_version(), MICROSOFT_DOMAIN: 1}
_FIRST_IR_VERSION_WITH_OVERRIDABLE_INITIALIZERS = 4


def load_model(
    source: ModelSource,
    *,
    external_data_folder: str | os.PathLike[str] | None = None,
    with_own_links: bool = False,
    limits: ModelLimits = _DEFAULT_LIMITS,
    replacements: GivenTensors = _NOTHING_GIVEN,
) -> Model:
    """Load a model from a file, bytes or a message, and check its graph.

    Weights are mapped when first used.

    Args:
        source: a path, serialized bytes, or a ModelProto (not changed, and not to be changed
            afterwards).
        external_data_folder: the folder of external data; default: the folder of the model file. A
            model from memory has none.
        with_own_links: True to allow external data behind any symbolic link that belongs to the
            current user.
        limits: bounds on the model.
        replacements: tensors that replace the model's.

    Raises:
        ModelError: a replacement does not fit.
        ModelNotFoundError, ModelFileError: the file, or external data, is missing, damaged or out
            of bounds.
        InvalidGraphError: a cycle, an undefined value, a doubly defined value, an unknown opset,
            unresolved functions.
    """
    model_file = read_model_file(source, limits=limits)
    folder = (
        external_data_folder
        if external_data_folder is not None
        else model_file.path and model_file.path.parent
    )
    tensors = TensorReader(
        folder=_data_files(replacements, folder, model_file.path, with_own_links), limits=limits
    )
    return _Reader(model_file, tensors, limits, replacements).read()


def _data_files(
    replacements: GivenTensors,
    folder: str | os.PathLike[str] | None,
    model: Path | None,
    with_own_links: bool,
) -> FilesInMemory | ExternalDataFolder | None:
    if replacements.files:
        return FilesInMemory(replacements.files)
    return (
        None
        if folder is None
        else ExternalDataFolder(Path(folder), model=model, with_own_links=with_own_links)
    )


class _Reader:
    def __init__(
        self,
        model_file: ModelFile,
        tensors: TensorReader,
        limits: ModelLimits,
        replacements: GivenTensors,
    ) -> None:
        self._model_file = model_file
        self._tensors = tensors
        self._limits = limits
        self._replacements = replacements
        self._node_count = 0
        self._defined: dict[Graph, set[str]] = {}
        self._functions = ModelFunctions(model_file.proto.functions, limits)

    def read(self) -> Model:
        """Return the model, its functions inlined and its graphs checked."""
        proto = self._model_file.proto
        opset_imports = read_opset_imports(proto.opset_import) or {"": 1}
        graph = Graph(text_of(proto.graph.name, "graph name"), opset_imports=opset_imports)
        self._fill(NameScope(graph, graph.opset_imports), proto.graph)
        # Transformers write ONNX's own nodes into a graph that has none, too.
        graph.opset_imports.setdefault(ONNX_DOMAIN, _IMPLIED_OPSETS[ONNX_DOMAIN])
        self._replacements.verify_external(graph.initializers)
        verify_graph(graph)
        verify_schemas(graph)
        return Model(
            graph=graph,
            ir_version=proto.ir_version,
            producer_name=text_of(proto.producer_name, "producer name"),
            producer_version=text_of(proto.producer_version, "producer version"),
            domain=text_of(proto.domain, "model domain"),
            model_version=proto.model_version if proto.HasField("model_version") else None,
            doc_string=text_of(proto.doc_string, "doc string"),
            metadata_props=entries_of(proto.metadata_props, "metadata"),
            path=self._model_file.path,
        )

    # --- graphs -----------------------------------------------------------------------------------

    def _fill(self, scope: NameScope, proto: onnx.GraphProto) -> None:
        """Read ``proto`` into ``scope.graph``."""
        graph = scope.graph
        self._name_definitions(scope, proto)
        graph.doc_string = text_of(proto.doc_string, "doc string")
        graph.metadata = entries_of(proto.metadata_props, "metadata")
        self._read_initializers(scope, proto)
        inputs = [scope.resolve(value.name) for value in polled_parts(proto.input)]
        if self._model_file.proto.ir_version < _FIRST_IR_VERSION_WITH_OVERRIDABLE_INITIALIZERS:
            inputs = [name for name in inputs if name not in graph.initializers]
        graph.set_inputs(inputs)
        graph.set_outputs([scope.resolve(value.name) for value in polled_parts(proto.output)])
        for what, names in (("input", inputs), ("output", graph.outputs)):
            if "" in names:
                raise InvalidGraphError(f"graph {quoted(graph.name)} has an {what} without a name")
        for values in (proto.value_info, proto.input, proto.output):
            for value in values:
                poll_load(DECLARED_NBYTES)
                _read_value_info(scope, value)
        for annotation in polled_parts(proto.quantization_annotation, DECLARED_NBYTES):
            graph.quantization_annotations[scope.resolve(annotation.tensor_name)] = {
                key: scope.resolve(value)
                for key, value in entries_of(
                    annotation.quant_parameter_tensor_names, "quantization"
                ).items()
            }
        self._add_nodes(scope, proto.node)

    def _name_definitions(self, scope: NameScope, proto: onnx.GraphProto) -> None:
        """Rename values of a sub-graph that a graph around it has too: names are unique here."""
        graph = scope.graph
        defined = dict.fromkeys(value.name for value in polled_parts(proto.input))
        defined |= dict.fromkeys(tensor.name for tensor in polled_parts(proto.initializer))
        defined |= dict.fromkeys(
            sparse.values.name for sparse in polled_parts(proto.sparse_initializer)
        )
        defined |= dict.fromkeys(
            name for node in polled_parts(proto.node) for name in polled_parts(node.output) if name
        )
        graph.reserve_names(defined)
        if graph.parent is not None:
            for name in defined:
                scope.names[name] = (
                    graph.make_name(name) if self._is_defined_around(graph, name) else name
                )
        self._defined[graph] = {scope.names.get(name, name) for name in defined}

    def _is_defined_around(self, graph: Graph, name: str) -> bool:
        outer = graph.parent
        while outer is not None:
            if name in self._defined[outer]:
                return True
            outer = outer.parent
        return False

    def _read_initializers(self, scope: NameScope, proto: onnx.GraphProto) -> None:
        graph = scope.graph
        source, spans = self._model_file.source, self._model_file.spans
        is_main = graph.parent is None
        for index, tensor in enumerate(proto.initializer):
            poll_load(CONSTANT_NBYTES)
            raw: tuple[ByteSource, int, int] | None = None
            if is_main and source is not None and index in spans:
                raw = source, *spans[index]
            name = scope.resolve(tensor.name)
            _check_initializer_name(graph, name)
            replacement = self._replacements.initializer(tensor, name) if is_main else None
            graph.add_initializer(
                replacement or self._tensors.initializer(tensor, name=name, raw=raw)
            )
        for sparse in polled_parts(proto.sparse_initializer, 3 * CONSTANT_NBYTES):
            name = scope.resolve(sparse.values.name)
            _check_initializer_name(graph, name)
            graph.add_initializer(self._tensors.sparse_initializer(sparse, name=name))

    def _subgraph(self, scope: NameScope, proto: onnx.GraphProto) -> Graph:
        if scope.depth >= self._limits.subgraph_depth:
            raise InvalidGraphError(
                f"graphs are nested deeper than {self._limits.subgraph_depth} levels"
            )
        poll_load(GRAPH_NBYTES)
        graph = Graph(text_of(proto.name, "graph name"), parent=scope.graph)
        inner = NameScope(
            graph,
            scope.opset_imports,
            parent=scope,
            attributes=scope.attributes,
            prefix=scope.prefix,
            depth=scope.depth + 1,
        )
        self._fill(inner, proto)
        return graph

    # --- nodes ------------------------------------------------------------------------------------

    def _add_nodes(self, scope: NameScope, nodes: Iterable[onnx.NodeProto]) -> None:
        for proto in nodes:
            self._node_count += 1
            poll_load(NODE_NBYTES)
            if self._node_count > self._limits.node_count:
                raise InvalidGraphError(
                    f"the model has more than {self._limits.node_count} nodes, functions inlined"
                )
            function = self._functions.find(proto)
            if function is not None:
                self._functions.check_inlined_size(proto, function)
                self._inline(scope, proto, function)
            else:
                self._add_node(scope, proto)

    def _implied_opset(self, scope: NameScope, domain: str) -> int | None:
        """Return the newest known version of an onnxruntime domain that is not imported."""
        implied = None if scope.is_function else _IMPLIED_OPSETS.get(domain)
        return implied and scope.graph.opset_imports.setdefault(domain, implied)

    def _add_node(self, scope: NameScope, proto: onnx.NodeProto) -> None:
        domain, op_type, name = (
            operator_domain(proto.domain),
            proto.op_type,
            text_of(proto.name, "node name"),
        )
        opset = scope.opset_imports.get(domain) or self._implied_opset(scope, domain)
        if opset is None:
            raise InvalidGraphError(
                f"node {quoted(name or op_type)} is of domain {quoted(domain)}, whose version is"
                f" not imported; imported are {', '.join(map(quoted, scope.opset_imports))}",
                node_name=name,
            )
        attributes = self._attributes(scope, proto)
        subgraphs = [
            graph
            for attribute in attributes.values()
            if attribute.kind in ("GRAPH", "GRAPHS")
            for graph in (attribute.value if attribute.kind == "GRAPHS" else (attribute.value,))
        ]
        scope.graph.add_node(
            text_of(op_type, "operator"),
            [scope.resolve(name) for name in polled_parts(proto.input, PART_NBYTES)],
            [scope.resolve(name) for name in polled_parts(proto.output, PART_NBYTES)],
            domain=domain,
            name=scope.prefix + name if name else "",
            attributes=attributes,
            since_version=resolve_since_version(domain, op_type, opset),
            implicit_inputs=tuple(
                dict.fromkeys(value for graph in subgraphs for value in graph.outer_values())
            ),
            doc_string=text_of(proto.doc_string, "doc string"),
            metadata=entries_of(proto.metadata_props, "metadata"),
        )

    def _attributes(self, scope: NameScope, proto: onnx.NodeProto) -> dict[str, Attribute]:
        attributes: dict[str, Attribute] = {}
        for attribute in polled_parts(proto.attribute, PART_NBYTES):
            value = self._attribute(scope, attribute)
            if value is not None:
                attributes[text_of(attribute.name, "attribute name")] = value
        return attributes

    def _attribute(self, scope: NameScope, proto: onnx.AttributeProto) -> Attribute | None:
        """Return the attribute; None if it refers to a function attribute missing in the call."""
        if proto.ref_attr_name:
            if scope.attributes is None:
                raise InvalidGraphError(
                    f"attribute {quoted(proto.name)} refers to a function's outside a function"
                )
            return scope.attributes.get(proto.ref_attr_name)
        kind = attribute_kind(proto)
        if kind in ("GRAPH", "GRAPHS"):
            graphs = tuple(
                self._subgraph(scope, graph)
                for graph in (proto.graphs if kind == "GRAPHS" else [proto.g])
            )
            return Attribute(kind, graphs if kind == "GRAPHS" else graphs[0])
        return Attribute(kind, attribute_value(proto, kind, self._tensors))

    # --- functions --------------------------------------------------------------------------------

    def _inline(self, scope: NameScope, call: onnx.NodeProto, function: onnx.FunctionProto) -> None:
        """Add the function's nodes in place of ``call``, with names of their own."""
        self._functions.check_call(call, function, depth=scope.depth)
        graph = scope.graph
        name = scope.prefix + (
            text_of(call.name, "node name") or f"{function.name}_{self._node_count}"
        )
        attributes = self._function_attributes(scope, call, function)
        inner, passed_through = call_scope(scope, call, function, attributes, name=name)
        for domain, version in inner.opset_imports.items():
            graph.opset_imports.setdefault(domain, version)
        for output in (output for node in function.node for output in node.output):
            if output and output not in inner.names:
                inner.names[output] = graph.make_name(f"{name}/{output}")
                self._defined[graph].add(inner.names[output])
        self._add_nodes(inner, function.node)
        for output, value in passed_through.items():
            version = resolve_since_version("", "Identity", graph.opset_imports.setdefault("", 1))
            graph.add_node("Identity", [value], [output], since_version=version)

    def _function_attributes(
        self, scope: NameScope, call: onnx.NodeProto, function: onnx.FunctionProto
    ) -> dict[str, Attribute]:
        defaults = {proto.name: self._attribute(scope, proto) for proto in function.attribute_proto}
        arguments = self._attributes(scope, call)
        declared = {*function.attribute, *defaults}
        unknown = next((name for name in arguments if name not in declared), None)
        if unknown is not None:
            raise InvalidGraphError(
                f"node {quoted(call.name)} gives {quoted(function.name)} the attribute"
                f" {quoted(unknown)}, which it does not declare",
                node_name=call.name,
            )
        return {
            **{name: value for name, value in defaults.items() if value is not None},
            **arguments,
        }


def _check_initializer_name(graph: Graph, name: str) -> None:
    if not name:
        raise InvalidGraphError(f"graph {quoted(graph.name)} has an initializer without a name")
    if name in graph.initializers:
        raise InvalidGraphError(
            f"graph {quoted(graph.name)} has two initializers named {quoted(name)}"
        )


def _read_value_info(scope: NameScope, proto: onnx.ValueInfoProto) -> None:
    name = scope.resolve(proto.name)
    value_type = value_type_from_proto(proto.type, f"value {quoted(proto.name)}")
    if value_type is not None:
        scope.graph.set_type(name, value_type)
    tensor = proto.type.tensor_type
    dims = tuple(
        text_of(dimension.denotation, "denotation") for dimension in polled_parts(tensor.shape.dim)
    )
    annotation = ValueAnnotation(
        doc_string=text_of(proto.doc_string, "doc string"),
        metadata=entries_of(proto.metadata_props, "metadata"),
        denotation=text_of(proto.type.denotation, "denotation"),
        dim_denotations=dims if any(dims) else (),
    )
    if annotation != ValueAnnotation():
        scope.graph.annotations[name] = annotation
