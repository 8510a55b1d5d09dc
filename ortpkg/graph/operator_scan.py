"""Finds the operators a model file needs that not every provider has, quickly in its encoding.

Every node is looked at, in sub-graphs too, and in those functions that are called; weights are
skipped. Field numbers are those of onnx.proto.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.needed_operators import (
    MICROSOFT_DOMAIN,
    ONNX_DOMAINS,
    ModelOperators,
    OnnxOperator,
    Operator,
)
from ortpkg.graph.onnx_operators import NEWEST_OPSETS
from ortpkg.graph.onnx_opsets import OperatorState, is_known_everywhere, operator_state
from ortpkg.graph.wire_format import WireFormatError, fields, varint_at

_Span = tuple[int, int]
_RawOperator = tuple[bytes, bytes]
_T = TypeVar("_T")

_EP_CONTEXT: Operator = (MICROSOFT_DOMAIN, "EPContext")
_RAW_EP_CONTEXT: _RawOperator = (MICROSOFT_DOMAIN.encode(), b"EPContext")

_MODEL_GRAPH, _MODEL_OPSET_IMPORT, _MODEL_FUNCTIONS = 7, 8, 25
_OPSET_DOMAIN, _OPSET_VERSION = 1, 2
_GRAPH_NODE = 1
_FUNCTION_NAME, _FUNCTION_NODE, _FUNCTION_OPSET_IMPORT, _FUNCTION_DOMAIN = 1, 7, 9, 10
_NODE_OP_TYPE, _NODE_ATTRIBUTE, _NODE_DOMAIN = 4, 5, 7
_NODE_FIELDS = frozenset({_NODE_OP_TYPE, _NODE_ATTRIBUTE, _NODE_DOMAIN})
_ATTRIBUTE_NAME, _ATTRIBUTE_S, _ATTRIBUTE_G, _ATTRIBUTE_GRAPHS = 1, 4, 6, 11
_LONGEST_TEXT = 1024
_NOT_ONNX = (OperatorState.UNDEFINED, OperatorState.ADDED)
#: Most attribute names kept for one operator; no ONNX operator has a quarter as many.
_MOST_NAMES_KEPT = 256
_SHORT_ATTRIBUTE_NBYTES, _MOST_ATTRIBUTES_KEPT = 64, 1 << 12
#: Without O_NONBLOCK, opening a pipe would wait for a writer.
_OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


def scan_model_file(path: Path, *, limits: ModelLimits) -> ModelOperators | None:
    """Return the needs of the model at ``path``.

    None if they cannot be determined: no file, no model, or a limit is exceeded.
    """
    return _of_file(path, limits, lambda data: scan_model(data, limits=limits))


class UsedOperators(NamedTuple):
    """The operators of a model's nodes, sorted: ONNX's own, and others.

    EPContext and the model's own functions are not among them.

    Attributes:
        onnx: operators of ONNX's own domains.
        foreign: operators of other domains.
        attributes: names of the attributes that nodes of each of ``onnx`` have, sorted; no entry if
            no node has any.
    """

    onnx: tuple[OnnxOperator, ...]
    foreign: tuple[Operator, ...]
    attributes: Mapping[OnnxOperator, tuple[str, ...]] = MappingProxyType({})

    @classmethod
    def of(cls, scan: _Scan) -> UsedOperators:
        """Return the operators that a walk over a whole model collected."""
        onnx = sorted(scan.onnx_operators, key=_in_order)
        names = scan.attribute_names
        return cls(
            onnx=tuple(onnx),
            foreign=tuple(sorted(scan.operators)),
            attributes={
                operator: tuple(sorted(names[operator])) for operator in onnx if operator in names
            },
        )


def scan_operators(path: Path, *, limits: ModelLimits) -> UsedOperators | None:
    """Return the operators of the model at ``path``; None if they cannot be determined."""
    return _of_file(
        path, limits, lambda data: UsedOperators.of(_walked(data, limits, names_attributes=True))
    )


def _of_file(path: Path, limits: ModelLimits, read: Callable[[memoryview], _T]) -> _T | None:
    descriptor = -1
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or not 0 < facts.st_size <= limits.model_nbytes:
            return None
        with (
            mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as data,
        ):
            return read(data)
    except (OSError, ValueError):  # WireFormatError is one
        return None
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def scan_model(data: memoryview, *, limits: ModelLimits) -> ModelOperators:
    """Return the needs of a serialized ModelProto.

    Raises:
        WireFormatError: if it is no ModelProto, or exceeds a limit.
    """
    scan = _walked(data, limits)
    states = {
        operator: _state_of(operator) for operator in sorted(scan.onnx_operators, key=_in_order)
    }
    return ModelOperators(
        operators=tuple(sorted(scan.operators)),
        context_sources=tuple(sorted(scan.sources)),
        undefined=tuple(operator for operator, state in states.items() if state in _NOT_ONNX),
        deprecated=tuple(
            operator for operator, state in states.items() if state is OperatorState.DEPRECATED
        ),
        opset=next((opset for opset in scan.opsets if not is_known_everywhere(opset)), None),
    )


def _state_of(operator: OnnxOperator) -> OperatorState:
    """Return the state; without an import, a session takes the main domain's newest opset."""
    if operator.opset is None and not operator.domain:
        return operator_state("", operator.name, NEWEST_OPSETS[""])
    return operator_state(*operator)


def _in_order(operator: OnnxOperator) -> tuple[str, str, int]:
    return operator.domain, operator.name, operator.opset or 0


def _walked(data: memoryview, limits: ModelLimits, *, names_attributes: bool = False) -> _Scan:
    """Return the completed scan of a whole model."""
    outline = _Outline.of(data)
    functions: dict[Operator, list[_Span]] = {}
    for span in outline.functions:
        functions.setdefault(_defined_by(data, *span), []).append(span)
    imports = _opsets(data, outline.imports) or {"": 1}  # as old as a model can be
    scan = _Scan(data, limits=limits, functions=functions, names_attributes=names_attributes)
    for span in outline.graphs:
        scan.read_nodes(*span, _GRAPH_NODE, imports)
    while scan.to_read:
        span = scan.to_read.pop()
        scan.read_nodes(*span, _FUNCTION_NODE, _opsets(data, _imports_of_function(data, *span)))
    return scan


class _Outline(NamedTuple):
    """Ranges of the parts of a model; weights are not looked at."""

    graphs: tuple[_Span, ...]
    functions: tuple[_Span, ...]
    imports: tuple[_Span, ...]

    @classmethod
    def of(cls, data: memoryview) -> _Outline:
        """Find the graphs, functions and opset imports of a serialized model."""
        graphs: list[_Span] = []
        functions: list[_Span] = []
        imports: list[_Span] = []
        parts = {_MODEL_GRAPH: graphs, _MODEL_FUNCTIONS: functions, _MODEL_OPSET_IMPORT: imports}
        for number, _, body, end in fields(data, 0, len(data)):
            if body >= 0 and number in parts:
                parts[number].append((body, end))
        return cls(graphs=tuple(graphs), functions=tuple(functions), imports=tuple(imports))


class _Scan:
    """One walk over the nodes of a model.

    It collects the foreign operators, and ONNX's with their opsets.

    Attributes:
        functions: operator that the model defines → its ranges; functions of one name differ only
            in their overload.
        opsets: of ONNX's main domain, as the model and the functions import them.
        to_read: called functions that still have to be walked over; no function occurs twice.
        without_graphs: attributes, as encoded, that contain no graph.
        attribute_names: of ONNX's operators, if the walk collects them: it takes longer.
    """

    def __init__(
        self,
        data: memoryview,
        *,
        limits: ModelLimits,
        functions: dict[Operator, list[_Span]],
        names_attributes: bool = False,
    ) -> None:
        self.data = data
        self.limits = limits
        self.functions = functions
        self.called: set[Operator] = set()
        self.to_read: list[_Span] = []
        self.operators: set[Operator] = set()
        self.onnx_operators: set[OnnxOperator] = set()
        self.sources: set[str] = set()
        self.opsets: list[int] = []
        self.without_graphs: set[bytes | None] = set()
        self.node_count = 0
        self.names_attributes = names_attributes
        self.attribute_names: dict[OnnxOperator, set[str]] = {}

    def read_nodes(self, start: int, stop: int, node_field: int, opsets: Mapping[str, int]) -> None:
        """Read the nodes of a graph or a function, and of graphs inside them; no recursion."""
        waiting = [(start, stop, node_field, 0)]
        self.opsets.append(opsets.get("", 1))
        counted: set[_RawOperator] = set()
        while waiting:
            start, stop, wanted, depth = waiting.pop()
            if depth > self.limits.subgraph_depth:
                raise WireFormatError(
                    f"graphs are nested deeper than {self.limits.subgraph_depth} levels"
                )
            for number, _, body, end in fields(self.data, start, stop):
                if number != wanted or body < 0:
                    continue
                raw, attributes = self._read_node(body, end)
                if raw not in counted:
                    self._count_in(raw, attributes, opsets)
                    if raw != _RAW_EP_CONTEXT:  # each node of these has a source of its own
                        counted.add(raw)
                if attributes:
                    if self.names_attributes:
                        self._name_attributes(raw, attributes, opsets)
                    waiting += (
                        (*span, _GRAPH_NODE, depth + 1) for span in self._subgraphs(attributes)
                    )

    def _read_node(self, start: int, stop: int) -> tuple[_RawOperator, list[_Span]]:
        """Return the node's operator as encoded, and the ranges of its attributes.

        It is called for every node.
        """
        self.node_count += 1
        if self.node_count > self.limits.node_count:
            raise WireFormatError(f"the model has more than {self.limits.node_count} nodes")
        domain = op_type = b""
        attributes: list[_Span] = []
        for number, _, body, end in fields(self.data, start, stop):
            if number not in _NODE_FIELDS or body < 0:
                continue
            if number == _NODE_ATTRIBUTE:
                attributes.append((body, end))
            elif number == _NODE_OP_TYPE:
                op_type = _name(self.data, body, end)
            else:
                domain = _name(self.data, body, end)
        return (domain, op_type), attributes

    def _count_in(
        self, raw: _RawOperator, attributes: list[_Span], opsets: Mapping[str, int]
    ) -> None:
        operator = domain, op_type = _decoded(raw[0]), _decoded(raw[1])
        if operator in self.functions:
            self._call(operator)
        elif domain in ONNX_DOMAINS:
            plain = _plain(domain)
            self.onnx_operators.add(OnnxOperator(plain, op_type, opsets.get(plain)))
        elif operator == _EP_CONTEXT:
            self.sources.add(self._source(attributes))
        else:
            self.operators.add(operator)

    def _name_attributes(
        self, raw: _RawOperator, attributes: list[_Span], opsets: Mapping[str, int]
    ) -> None:
        domain, op_type = _decoded(raw[0]), _decoded(raw[1])
        if domain not in ONNX_DOMAINS or (domain, op_type) in self.functions:
            return
        plain = _plain(domain)
        names = self.attribute_names.setdefault(
            OnnxOperator(plain, op_type, opsets.get(plain)), set()
        )
        for span in attributes:
            if len(names) < _MOST_NAMES_KEPT:
                names.add(self._attribute_name(*span))

    def _attribute_name(self, start: int, stop: int) -> str:
        """Return the beginning of the name: one that is too long hides nothing else."""
        name = b""
        for number, _, body, end in fields(self.data, start, stop):
            if number == _ATTRIBUTE_NAME and body >= 0:
                name = bytes(self.data[body : min(end, body + _LONGEST_TEXT)])
        return _decoded(name)

    def _call(self, operator: Operator) -> None:
        if operator not in self.called:
            self.called.add(operator)
            self.to_read += self.functions[operator]

    def _subgraphs(self, attributes: Iterable[_Span]) -> Iterator[_Span]:
        """Yield the graphs in attributes.

        Short attributes, of which most nodes have the same few, are looked into once.
        """
        for start, stop in attributes:
            short = (
                bytes(self.data[start:stop]) if stop - start <= _SHORT_ATTRIBUTE_NBYTES else None
            )
            if short in self.without_graphs:
                continue
            graphs = [
                (body, end)
                for number, _, body, end in fields(self.data, start, stop)
                if number in (_ATTRIBUTE_G, _ATTRIBUTE_GRAPHS) and body >= 0
            ]
            yield from graphs
            if (
                short is not None
                and not graphs
                and len(self.without_graphs) < _MOST_ATTRIBUTES_KEPT
            ):
                self.without_graphs.add(short)

    def _source(self, attributes: list[_Span]) -> str:
        for start, stop in attributes:
            name, value = "", (0, 0)
            for number, _, body, end in fields(self.data, start, stop):
                if number == _ATTRIBUTE_NAME and body >= 0:
                    name = _text(self.data, body, end)
                elif number == _ATTRIBUTE_S and body >= 0:
                    value = (body, end)
            if name == "source":
                return _text(self.data, *value)
        return ""


def _defined_by(data: memoryview, start: int, stop: int) -> Operator:
    """Return the operator that a function defines."""
    texts = dict.fromkeys((_FUNCTION_DOMAIN, _FUNCTION_NAME), "")
    for number, _, body, end in fields(data, start, stop):
        if number in texts and body >= 0:
            texts[number] = _text(data, body, end)
    return texts[_FUNCTION_DOMAIN], texts[_FUNCTION_NAME]


def _imports_of_function(data: memoryview, start: int, stop: int) -> list[_Span]:
    return [
        (body, end)
        for number, _, body, end in fields(data, start, stop)
        if number == _FUNCTION_OPSET_IMPORT and body >= 0
    ]


def _opsets(data: memoryview, imports: Iterable[_Span]) -> dict[str, int]:
    """Return domain → imported version; of two imports, the later counts."""
    return {
        _plain(_domain_of_import(data, *span)): _version_of_import(data, *span) for span in imports
    }


def _version_of_import(data: memoryview, start: int, stop: int) -> int:
    versions = [
        varint_at(data, field_start, end)
        for number, field_start, body, end in fields(data, start, stop)
        if number == _OPSET_VERSION and body < 0
    ]
    return versions[-1] if versions else 0


def _plain(domain: str) -> str:
    """Return the domain, with one of the two names of ONNX's main domain."""
    return "" if domain == "ai.onnx" else domain


def _domain_of_import(data: memoryview, start: int, stop: int) -> str:
    spans = [
        (body, end)
        for number, _, body, end in fields(data, start, stop)
        if number == _OPSET_DOMAIN and body >= 0
    ]
    return _text(data, *spans[-1]) if spans else ""


def _text(data: memoryview, start: int, stop: int) -> str:
    return _decoded(_name(data, start, stop))


def _name(data: memoryview, start: int, stop: int) -> bytes:
    if stop - start > _LONGEST_TEXT:
        raise WireFormatError(f"a name of {stop - start} bytes")
    return bytes(data[start:stop])


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "replace")
