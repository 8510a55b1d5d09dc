"""Resolves the names in a graph's or a function's message, while a model is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ortpkg.foundations.errors import InvalidGraphError, quoted
from ortpkg.graph.graph import Attribute, Graph
from ortpkg.graph.proto_text import text_of


@dataclass(slots=True)
class NameScope:
    """Resolves names of a GraphProto or FunctionProto.

    Attributes:
        graph: the graph that nodes are added to.
        opset_imports: domain → version for its operators.
        names: name in the message → value name in ``graph``, if they differ.
        parent: the enclosing scope; None for the main graph, and for functions, which see nothing
            around them.
        is_function: True if every name must be in ``names``.
        attributes: values of a function's attribute references; None outside functions.
        prefix: prepended to node names.
        depth: of nesting.
    """

    graph: Graph
    opset_imports: Mapping[str, int]
    names: dict[str, str] = field(default_factory=dict)
    parent: NameScope | None = None
    is_function: bool = False
    attributes: Mapping[str, Attribute] | None = None
    prefix: str = ""
    depth: int = 0

    def resolve(self, name: str) -> str:
        """Return the value that ``name`` refers to."""
        scope: NameScope | None = self
        text_of(name, "value name")
        while name and scope is not None:
            if name in scope.names:
                return scope.names[name]
            if scope.is_function:
                raise InvalidGraphError(
                    f"the function called as {quoted(scope.prefix.rstrip('/'))} takes"
                    f" {quoted(name)}, which nothing in it makes"
                )
            scope = scope.parent
        return name
