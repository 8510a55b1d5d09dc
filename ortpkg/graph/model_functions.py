"""The functions of a model, as needed to replace a call by their nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx

from ortpkg.foundations.errors import InvalidGraphError, quoted
from ortpkg.graph.graph import Attribute
from ortpkg.graph.load_control import ENTRY_NBYTES, polled_parts
from ortpkg.graph.model_limits import ModelLimits
from ortpkg.graph.name_scope import NameScope
from ortpkg.graph.proto_text import text_of

_FunctionId = tuple[str, str, str]


class ModelFunctions:
    """The functions of a model, and checks that a call of one may be inlined."""

    def __init__(self, functions: Collection[onnx.FunctionProto], limits: ModelLimits) -> None:
        self._limits = limits
        self._inlined_sizes: dict[_FunctionId, int] = {}
        self._functions: dict[_FunctionId, onnx.FunctionProto] = {
            (operator_domain(function.domain), function.name, function.overload): function
            for function in polled_parts(functions, ENTRY_NBYTES)
        }

    def find(self, node: onnx.NodeProto) -> onnx.FunctionProto | None:
        """Return the function that the node calls; None for an operator."""
        return self._functions.get((operator_domain(node.domain), node.op_type, node.overload))

    def check_inlined_size(self, call: onnx.NodeProto, function: onnx.FunctionProto) -> None:
        """Refuse a call that becomes too many nodes, before any is made: calls can double."""
        most = min(self._limits.inlined_node_count, self._limits.node_count)
        if self._inlined_size(function, 0) > most:
            raise InvalidGraphError(
                f"node {quoted(call.name)} calls {quoted(function.name)}: "
                f"the model has more than {most} nodes, functions inlined",
                node_name=call.name,
            )

    def _inlined_size(self, function: onnx.FunctionProto, depth: int) -> int:
        """Return the number of nodes of the function and its callees, without sub-graphs."""
        key = operator_domain(function.domain), function.name, function.overload
        if key not in self._inlined_sizes:
            if depth > self._limits.subgraph_depth:
                return 0  # inlining refuses it, by its depth
            called = map(self.find, function.node)
            self._inlined_sizes[key] = sum(
                1 if inner is None else self._inlined_size(inner, depth + 1) for inner in called
            )
        return self._inlined_sizes[key]

    def check_call(self, call: onnx.NodeProto, function: onnx.FunctionProto, *, depth: int) -> None:
        """Refuse a call that is nested too deep, or has more values than the function takes."""
        if depth >= self._limits.subgraph_depth:
            raise InvalidGraphError(
                f"function {quoted(function.name)} is called in more than"
                f" {self._limits.subgraph_depth} levels; ONNX allows no recursion"
            )
        if len(call.input) > len(function.input) or len(call.output) > len(function.output):
            raise InvalidGraphError(
                f"node {quoted(call.name)} calls {quoted(function.name)} with more inputs or"
                " outputs than it has",
                node_name=call.name,
            )


def call_scope(
    scope: NameScope,
    call: onnx.NodeProto,
    function: onnx.FunctionProto,
    attributes: Mapping[str, Attribute],
    *,
    name: str,
) -> tuple[NameScope, dict[str, str]]:
    """Return the scope of the function's nodes, where its inputs and outputs are those of ``call``.

    The second result maps output → input for each output that the function only passes through.
    """
    inner = NameScope(
        scope.graph,
        read_opset_imports(function.opset_import),
        is_function=True,
        attributes=attributes,
        prefix=f"{name}/",
        depth=scope.depth + 1,
    )
    actual_inputs = [scope.resolve(value) for value in call.input]
    inner.names = dict(zip(function.input, actual_inputs, strict=False))
    inner.names.update(dict.fromkeys(function.input[len(actual_inputs) :], ""))
    passed_through = {}
    for formal, actual in zip(function.output, call.output, strict=False):
        if actual and formal in function.input:
            passed_through[scope.resolve(actual)] = inner.names[formal]
        elif actual:
            inner.names[formal] = scope.resolve(actual)
    return inner, passed_through


def operator_domain(domain: str) -> str:
    """Return the domain; "" for ONNX's main domain, which has two names."""
    return "" if domain == "ai.onnx" else text_of(domain, "operator domain")


def read_opset_imports(imports: Collection[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Return domain → version; InvalidGraphError for an unknown opset of ONNX's main domain."""
    versions = {
        operator_domain(opset.domain): opset.version
        for opset in polled_parts(imports, ENTRY_NBYTES)
    }
    newest = onnx.defs.onnx_opset_version()
    if not 1 <= versions.get("", 1) <= newest:
        raise InvalidGraphError(
            f"the model imports opset {versions['']} of ai.onnx; opsets 1 to {newest} are known"
            " here"
        )
    return versions
