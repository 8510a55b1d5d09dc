"""Finds the nodes that a native library refuses, if it does not compile a whole claim.

The library's message may name operators that it lacks; else each kind of node is compiled alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ortpkg.foundations.errors import (
    InvalidSessionOptionError,
    LimitExceededError,
    OrtpkgError,
    quoted,
)
from ortpkg.graph.graph import Graph, Node
from ortpkg.runtime.ep_context.claim_refusals import ClaimRefusal
from ortpkg.runtime.providers.library_traits import Operator
from ortpkg.runtime.providers.library_words import quoted_words
from ortpkg.runtime.providers.native_library import NativeLibrary
from ortpkg.runtime.providers.native_model import native_model
from ortpkg.runtime.providers.partition_body import partition_body
from ortpkg.runtime.providers.partition_border import PartitionBorder
from ortpkg.runtime.providers.supported_subgraphs import subgraph_claim

MOST_NAMES_SHOWN = 5
#: Most kinds of nodes that are compiled alone in a session; further kinds are never blamed.
_MOST_KINDS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimBlame:
    """Search for the nodes to blame.

    Attributes:
        ep_name: execution provider with the claims, for messages.
        library: library that refuses.
        border: border between a partition and the library.
        verdicts: kinds of nodes compiled alone so far → True if the library refused them.
    """

    ep_name: str
    library: NativeLibrary
    border: PartitionBorder
    verdicts: dict[object, bool] = field(default_factory=dict)

    def refusal(self, graph: Graph, nodes: Sequence[Node], error: Exception) -> ClaimRefusal:
        """Return the refusal of the nodes to blame for ``error``.

        These are nodes of operators that it names, or nodes that fail alone; if there are none of
        either, all nodes.
        """
        unknown = self.library.traits.unknown_operators(str(error)) & {
            operator for node in nodes for operator in _operators_in(node)
        }
        refused = [node for node in nodes if not unknown.isdisjoint(_operators_in(node))]
        if refused:
            names = ", ".join(sorted(f"{domain or 'ai.onnx'}:{name}" for domain, name in unknown))
            reason = (
                f"{self.ep_name} cannot compile the model as a whole: its library lacks {names}"
            )
            return ClaimRefusal(
                makes=tuple(map(first_made, refused)), reasons=(reason,), unknown=unknown
            )
        reason = (
            str(error) if isinstance(error, OrtpkgError) else compile_error(self.ep_name, error)
        )
        alone = self._failing_alone(graph, nodes) if len(nodes) > 1 else set()
        # Nodes that pass such values to nodes inside cannot be tried alone: if no other node is to
        # blame, they are.
        alone = alone or {
            node.index for node in nodes if self.border.has_foreign_values(graph, node)
        }
        refused = list(nodes)
        if alone and len(alone) < len(nodes):
            names = ", ".join(
                quoted(graph.node(index).name) for index in sorted(alone)[:MOST_NAMES_SHOWN]
            )
            reason = f"{reason}; it refuses {names}"
            refused = [node for node in nodes if node.index in alone]
        makes = tuple(map(first_made, refused))
        return ClaimRefusal(makes=makes, reasons=(reason,), is_lasting=_is_about_the_model(error))

    def _failing_alone(self, graph: Graph, nodes: Sequence[Node]) -> set[int]:
        """Return the nodes whose kind (operator, version, types) does not even compile alone."""
        verdicts = self.verdicts
        failing = set()
        for node in nodes:
            types = tuple(str(graph.type_of(value)) for value in (*node.inputs, *node.outputs))
            kind = (*operator_of(node), node.since_version, types)
            if kind not in verdicts:
                verdicts[kind] = len(verdicts) < _MOST_KINDS and self._fails_alone(graph, node)
            if verdicts[kind]:
                failing.add(node.index)
        return failing

    def _fails_alone(self, graph: Graph, node: Node) -> bool:
        claim = subgraph_claim(graph, (node.index,), node.name)
        if claim is None or claim.meta_def is None:
            return False
        meta = claim.meta_def
        if not all(
            self.border.is_crossed_by(graph, value) for value in (*meta.inputs, *meta.outputs)
        ):
            return False
        try:
            body = partition_body(graph, [node], meta, self.ep_name, takes_subgraphs=False)
            self.library.compile_model(native_model(body, form=self.library.weight_form))
        except (
            LimitExceededError,
            InvalidSessionOptionError,
        ):  # the caller's error: no other provider helps
            raise
        except Exception:  # noqa: BLE001 - libraries raise what they like
            return True
        return False


def compile_error(ep_name: str, error: Exception) -> str:
    """Return the message for a model that a library does not compile."""
    return f"{ep_name} cannot compile the model: {quoted_words(error)}"


def first_made(node: Node) -> str:
    """Return the first value that a node makes; it identifies the node in its graph."""
    return next(filter(None, node.outputs), "")


def operator_of(node: Node) -> Operator:
    """Return a node's operator, with "" as the domain of ONNX's own."""
    return ("" if node.domain == "ai.onnx" else node.domain, node.op_type)


def _operators_in(node: Node) -> Iterator[Operator]:
    """Yield the node's operator and those of the graphs inside it."""
    yield operator_of(node)
    for subgraph in node.subgraphs.values():
        for inner in subgraph.nodes:
            yield from _operators_in(inner)


def _is_about_the_model(error: Exception) -> bool:
    """Return True if the error would come again.

    It may not after too little memory, a lost file or the end of a child process.
    """
    is_passing = (
        isinstance(error, OrtpkgError | MemoryError | OSError) or "alloc" in str(error).lower()
    )
    return not is_passing and getattr(error, "kind", "") not in ("MemoryError", "OSError")
