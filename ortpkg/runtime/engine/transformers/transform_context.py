"""Context of transformers, and the kinds of transformers that there are.

A *graph transformer* is a global pass over one graph; a *rewrite rule* looks at one node at a time.
Both change a graph through its mutators only, never descend into sub-graphs (the driver does), and
change nothing that a caller can see: names, types and order of inputs and outputs stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from ortpkg.graph.graph import ONNX_DOMAIN, Graph, Node
from ortpkg.graph.types import ElementType

#: Computes a node on constant inputs (None for one left out) and returns its outputs, or None if no
#: kernel here can. It bounds its own memory and raises OrtpkgError if the node fails, which then
#: stays as it is.
ConstantEvaluator = Callable[[Graph, Node, Sequence[Any]], "Sequence[Any] | None"]

#: Returns True if the provider named in ``node.execution_provider`` ("" before partitioning: any)
#: has a kernel for a node with these types (type-constraint name → element type). The node need not
#: be in a graph.
KernelExists = Callable[[Node, Mapping[str, ElementType]], bool]


class TransformLevel(IntEnum):
    """Levels of transformers, as onnxruntime's TransformerLevel.

    DEFAULT ones are needed for correctness and run even with optimization off.
    """

    DEFAULT = 0
    BASIC = 1
    EXTENDED = 2
    LAYOUT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformContext:
    """Settings and services that the engine gives to transformers.

    Attributes:
        evaluate: computes nodes on constants; None switches constant folding off.
        kernel_exists: rules that make nodes which only some providers run ask it first.
        execution_providers: only nodes of these providers, or of none yet, may change; None: all.
        largest_constant_nbytes: largest size of a constant that a transformer makes; past the first
            MiB, folding also never more than doubles the bytes of what it folds.
        only_portable: make no node that onnxruntime's CPU provider refuses, because the model is
            going to be written.
    """

    evaluate: ConstantEvaluator | None = None
    kernel_exists: KernelExists = lambda _node, _types: False
    execution_providers: frozenset[str] | None = None
    largest_constant_nbytes: int = 256 << 20
    only_portable: bool = False

    def may_change(self, node: Node) -> bool:
        """Return True if the provider filter lets ``node`` be changed."""
        if not node.execution_provider or self.execution_providers is None:
            return True
        return node.execution_provider in self.execution_providers


class GraphTransformer(Protocol):
    """A pass over one graph."""

    @property
    def name(self) -> str:
        """Name of the transformer in logs and plans."""
        ...

    def apply(self, graph: Graph, context: TransformContext) -> int:
        """Change ``graph`` and return the number of changes, 0 if there was nothing to do."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteRule:
    """Rule that looks at one node and its neighbours.

    Attributes:
        name: name in logs and tests.
        op_types: types of the nodes that it looks at.
        domains: domains of these nodes; by default ONNX's own.
        fewest_inputs: smallest number of inputs of a node that it looks at; nothing else has
            checked nodes without a definition of ONNX.
        rewrite: changes the graph around one such node and returns True if it did. It may remove
            the node, and then need not care for what the node was.
    """

    name: str
    op_types: frozenset[str]
    rewrite: Callable[[Graph, Node, TransformContext], bool]
    domains: frozenset[str] = frozenset({ONNX_DOMAIN})
    fewest_inputs: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPass:
    """Graph transformer made of one function."""

    name: str
    run: Callable[[Graph, TransformContext], int]

    def apply(self, graph: Graph, context: TransformContext) -> int:
        """Call the function and return the number of changes that it made."""
        return self.run(graph, context)
