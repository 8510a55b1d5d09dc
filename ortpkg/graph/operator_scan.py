"""Which operators beyond ONNX's own a model file needs, found in its encoding: no protobuf, no weights, little time.

Most models import ONNX's own domains alone; of these nothing but the list of imports is looked at. For the others every
node is, in sub-graphs too, and in those functions that are called. Field numbers are those of onnx.proto.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from ortpkg.graph.limits import ModelLimits
from ortpkg.graph.wire_format import WireFormatError, fields, varint_at

#: An operator: domain ("" for ONNX's own), name.
Operator = tuple[str, str]

_Span = tuple[int, int]
_T = TypeVar("_T")

#: Domains whose operators are ONNX's own: the embedded engine runs all of them.
ONNX_DOMAINS: frozenset[str] = frozenset({"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"})
MICROSOFT_DOMAIN = "com.microsoft"
_EP_CONTEXT: Operator = (MICROSOFT_DOMAIN, "EPContext")

_MODEL_GRAPH, _MODEL_OPSET_IMPORT, _MODEL_FUNCTIONS = 7, 8, 25
_OPSET_DOMAIN, _OPSET_VERSION = 1, 2
_GRAPH_NODE = 1
_FUNCTION_NAME, _FUNCTION_NODE, _FUNCTION_OPSET_IMPORT, _FUNCTION_DOMAIN = 1, 7, 9, 10
_NODE_OP_TYPE, _NODE_ATTRIBUTE, _NODE_DOMAIN = 4, 5, 7
_ATTRIBUTE_NAME, _ATTRIBUTE_S, _ATTRIBUTE_G, _ATTRIBUTE_GRAPHS = 1, 4, 6, 11
_LONGEST_TEXT = 1024
#: Opening a pipe would wait for somebody to write into it.
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOperators:
    """What a model needs beyond ONNX's own operators.

    Attributes:
        operators: those that are neither ONNX's nor functions of the model, EPContext not among them; sorted.
        context_sources: ``source`` of its EPContext nodes, "" where one states none; sorted.
    """

    operators: tuple[Operator, ...] = ()
    context_sources: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.operators or self.context_sources)


NOTHING = ModelOperators()


class OnnxOperator(NamedTuple):
    """An operator of ONNX's own domains as a model uses it; ``opset`` is None where its domain is not imported."""

    domain: str
    name: str
    opset: int | None


def operator_text(operator: Operator) -> str:
    """E.g. "com.acme:Frobnicate".

    >>> operator_text(("", "Relu"))
    'ai.onnx:Relu'
    """
    return ":".join((operator[0] or "ai.onnx", operator[1]))


def scan_model_file(path: Path, *, limits: ModelLimits) -> ModelOperators | None:
    """What the model at ``path`` needs; None where that cannot be told: no file, no model, or past a limit."""
    return _of_file(path, limits, lambda data: scan_model(data, limits=limits))


def file_imports_only_onnx(path: Path, *, limits: ModelLimits) -> bool | None:
    """Whether the model at ``path`` imports ONNX's own domains alone, and so needs nothing; None as above."""
    return _of_file(path, limits, lambda data: _Outline.of(data).imports_only_onnx)


def scan_onnx_operators(path: Path, *, limits: ModelLimits) -> tuple[OnnxOperator, ...] | None:
    """ONNX's own operators in the model at ``path``, sorted; None where they cannot be told, as above.

    All nodes are walked over, which takes as long as parsing them would.
    """
    return _of_file(path, limits, lambda data: tuple(sorted(_walked(data, _Outline.of(data), limits).onnx_operators)))


def _of_file(path: Path, limits: ModelLimits, read: Callable[[memoryview], _T]) -> _T | None:
    descriptor = -1
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or not 0 < facts.st_size <= limits.model_nbytes:
            return None
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as data:
            return read(data)
    except (OSError, ValueError):  # WireFormatError is one
        return None
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def scan_model(data: memoryview, *, limits: ModelLimits) -> ModelOperators:
    """What a serialized ModelProto needs. WireFormatError where it is none, or is past a limit."""
    outline = _Outline.of(data)
    if outline.imports_only_onnx:
        return NOTHING
    scan = _walked(data, outline, limits)
    return ModelOperators(
        operators=tuple(sorted(scan.operators - {_EP_CONTEXT})), context_sources=tuple(sorted(scan.sources))
    )


def _walked(data: memoryview, outline: _Outline, limits: ModelLimits) -> _Scan:
    """The scan of a whole model, done."""
    functions: dict[Operator, list[_Span]] = {}
    for span in outline.functions:
        functions.setdefault(_defined_by(data, *span), []).append(span)
    scan = _Scan(data=data, limits=limits, functions=functions)
    imports = _opsets(data, outline.imports) or {"": 1}  # as old as a model can be
    for span in outline.graphs:
        scan.read_nodes(*span, _GRAPH_NODE, imports)
    while scan.to_read:
        span = scan.to_read.pop()
        scan.read_nodes(*span, _FUNCTION_NODE, _opsets(data, _imports_of_function(data, *span)))
    return scan


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outline:
    """Where the parts of a model lie; weights are not looked at."""

    graphs: tuple[_Span, ...]
    functions: tuple[_Span, ...]
    imports: tuple[_Span, ...]
    imports_only_onnx: bool

    @classmethod
    def of(cls, data: memoryview) -> _Outline:
        graphs: list[_Span] = []
        functions: list[_Span] = []
        imports: list[_Span] = []
        parts = {_MODEL_GRAPH: graphs, _MODEL_FUNCTIONS: functions, _MODEL_OPSET_IMPORT: imports}
        for number, _, body, end in fields(data, 0, len(data)):
            if body >= 0 and number in parts:
                parts[number].append((body, end))
        is_plain = all(_domain_of_import(data, *span) in ONNX_DOMAINS for span in imports) and not any(
            _imports_foreign(data, *span) for span in functions
        )
        return cls(graphs=tuple(graphs), functions=tuple(functions), imports=tuple(imports), imports_only_onnx=is_plain)


@dataclass(slots=True, kw_only=True)
class _Scan:
    """One walk over the nodes of a model; gathers the foreign operators, and those of ONNX with their opsets.

    Attributes:
        functions: operator that the model defines → where; those of one name differ in their overload only.
        to_read: the functions that were called and are still to be walked over; no function is twice.
    """

    data: memoryview
    limits: ModelLimits
    functions: dict[Operator, list[_Span]]
    called: set[Operator] = field(default_factory=set)
    to_read: list[_Span] = field(default_factory=list)
    operators: set[Operator] = field(default_factory=set)
    onnx_operators: set[OnnxOperator] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    node_count: int = 0

    def read_nodes(self, start: int, stop: int, node_field: int, opsets: Mapping[str, int]) -> None:
        """The nodes of a graph or a function, and of the graphs inside them; no recursion."""
        waiting = [(start, stop, node_field, 0)]
        while waiting:
            start, stop, wanted, depth = waiting.pop()
            if depth > self.limits.subgraph_depth:
                raise WireFormatError(f"graphs are nested deeper than {self.limits.subgraph_depth} levels")
            for number, _, body, end in fields(self.data, start, stop):
                if number == wanted and body >= 0:
                    waiting += ((*span, _GRAPH_NODE, depth + 1) for span in self._read_node(body, end, opsets))

    def _read_node(self, start: int, stop: int, opsets: Mapping[str, int]) -> list[_Span]:
        """Counts the node in; returns its sub-graphs."""
        self.node_count += 1
        if self.node_count > self.limits.node_count:
            raise WireFormatError(f"the model has more than {self.limits.node_count} nodes")
        domain = op_type = ""
        subgraphs: list[_Span] = []
        attributes: list[_Span] = []
        for number, _, body, end in fields(self.data, start, stop):
            if number == _NODE_ATTRIBUTE and body >= 0:
                attributes.append((body, end))
            elif number == _NODE_DOMAIN and body >= 0:
                domain = _text(self.data, body, end)
            elif number == _NODE_OP_TYPE and body >= 0:
                op_type = _text(self.data, body, end)
        for span in attributes:
            subgraphs += self._subgraphs(*span)
        if (domain, op_type) in self.functions:
            self._call((domain, op_type))
            return subgraphs
        if domain not in ONNX_DOMAINS:
            self.operators.add((domain, op_type))
        else:
            plain = _plain(domain)
            self.onnx_operators.add(OnnxOperator(plain, op_type, opsets.get(plain)))
        if (domain, op_type) == _EP_CONTEXT:
            self.sources.add(self._source(attributes))
        return subgraphs

    def _call(self, operator: Operator) -> None:
        if operator not in self.called:
            self.called.add(operator)
            self.to_read += self.functions[operator]

    def _subgraphs(self, start: int, stop: int) -> Iterator[_Span]:
        for number, _, body, end in fields(self.data, start, stop):
            if number in (_ATTRIBUTE_G, _ATTRIBUTE_GRAPHS) and body >= 0:
                yield body, end

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
    """The operator that a function defines."""
    texts = dict.fromkeys((_FUNCTION_DOMAIN, _FUNCTION_NAME), "")
    for number, _, body, end in fields(data, start, stop):
        if number in texts and body >= 0:
            texts[number] = _text(data, body, end)
    return texts[_FUNCTION_DOMAIN], texts[_FUNCTION_NAME]


def _imports_foreign(data: memoryview, start: int, stop: int) -> bool:
    return any(_domain_of_import(data, *span) not in ONNX_DOMAINS for span in _imports_of_function(data, start, stop))


def _imports_of_function(data: memoryview, start: int, stop: int) -> list[_Span]:
    return [
        (body, end)
        for number, _, body, end in fields(data, start, stop)
        if number == _FUNCTION_OPSET_IMPORT and body >= 0
    ]


def _opsets(data: memoryview, imports: Iterable[_Span]) -> dict[str, int]:
    """Domain → the version that is imported; of two, the later counts."""
    return {_plain(_domain_of_import(data, *span)): _version_of_import(data, *span) for span in imports}


def _version_of_import(data: memoryview, start: int, stop: int) -> int:
    versions = [
        varint_at(data, field_start, end)
        for number, field_start, body, end in fields(data, start, stop)
        if number == _OPSET_VERSION and body < 0
    ]
    return versions[-1] if versions else 0


def _plain(domain: str) -> str:
    """ONNX's main domain has two names."""
    return "" if domain == "ai.onnx" else domain


def _domain_of_import(data: memoryview, start: int, stop: int) -> str:
    spans = [(body, end) for number, _, body, end in fields(data, start, stop) if number == _OPSET_DOMAIN and body >= 0]
    return _text(data, *spans[-1]) if spans else ""


def _text(data: memoryview, start: int, stop: int) -> str:
    if stop - start > _LONGEST_TEXT:
        raise WireFormatError(f"a name of {stop - start} bytes")
    return bytes(data[start:stop]).decode("utf-8", "replace")
