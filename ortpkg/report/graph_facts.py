"""Facts of a model's graphs: nodes in the file, nodes as they run, and their providers.

The file is read once more, without its weights; what runs is what the session planned.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_types
from ortpkg.graph.topology import all_graphs, topological_order
from ortpkg.graph.types import ElementType, SparseTensorType, TensorType, ValueType
from ortpkg.runtime.engine.partition import Partition
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import EXTERNAL_DATA_FOLDER_ENTRY
from ortpkg.runtime.session.session_plan import GraphPlan, PlannedNode, SessionPlan

#: Most nodes of one graph; the rest is counted.
MOST_NODES = 50_000
#: Most graphs of one model; a model with more has dozens of nested loops, or is hostile.
MOST_GRAPHS = 50
#: Inferring the shapes of a larger model takes longer than a whole report may.
_MOST_NODES_INFERRED = 10_000
#: Torch writes the modules around a node as a Python list, outermost first.
_SCOPE_METADATA = "pkg.torch.onnx.name_scopes"
_MOST_SCOPE_CHARACTERS = 4000
_QUOTED_NAME = re.compile(r"'([^']*)'")
_NUMBER_NAMES = {ElementType.FLOAT: "float32", ElementType.DOUBLE: "float64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFact:
    """One node, in the model file or as it runs.

    Attributes:
        name: Name, unique within its stage.
        op_type, domain: Operator; ``domain`` is "" for ONNX's own.
        scope: Modules around the node according to its exporter, outermost first; empty if only the
            name tells.
        provider: Index into ``GraphFacts.providers``; None if no step runs the node, because
            optimizations folded it or fused it into others.
        partition: Index into ``GraphFacts.partitions``; None like ``provider``.
        step: Step at which it runs; None for a node of the file that does not run under its own
            name.
        kernel: What computes it; "" if ``step`` is None.
        inputs, outputs: Names of values; "" for one left out.
    """

    name: str
    op_type: str
    domain: str = ""
    scope: tuple[str, ...] = ()
    provider: int | None = None
    partition: int | None = None
    step: int | None = None
    kernel: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFact:
    """Nodes that one provider runs as a unit, or one by one.

    Attributes:
        provider: Index into ``GraphFacts.providers``.
        fused_node: Name of the node that replaces its nodes; "" if they run one by one.
        node_count: Number of its nodes before fusing.
    """

    provider: int
    fused_node: str
    node_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphStage:
    """Nodes of a graph in execution order.

    Attributes:
        nodes: At most ``MOST_NODES`` nodes.
        left_out: Number of further nodes.
        values: Type and sizes of values by name, such as "float32 [batch, 128, 768]", if known.
        inputs, outputs: Names of values, without weights.
    """

    nodes: tuple[NodeFact, ...]
    left_out: int = 0
    values: Mapping[str, str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFacts:
    """One graph of a model, before and after the session's start changed it.

    Attributes:
        path: "" for the main graph, else the path to the sub-graph, e.g. ``"loop_0.body"``.
        providers: Names, in order of priority.
        partitions: Partitions in order of assignment.
        before: The graph in the model file.
        after: The graph as it runs, with one node for each fused partition; None for a sub-graph
            without a plan, because a node around it was fused or optimized away.
    """

    path: str
    providers: tuple[str, ...]
    partitions: tuple[PartitionFact, ...]
    before: GraphStage
    after: GraphStage | None


def graph_facts(
    session: InferenceSession,
    model_path: str | os.PathLike[str],
    plan: SessionPlan | None = None,
) -> tuple[GraphFacts, ...]:
    """Return the main graph of ``model_path`` and its sub-graphs, as ``session`` planned them.

    At most ``MOST_GRAPHS`` graphs are returned. ``plan`` is the session's plan, if the caller has
    it.

    Raises:
        ModelError: The file is gone, or has become unreadable since the session read it.
    """
    plan = session.get_plan() if plan is None else plan
    folder = session.get_session_options().config_entries.get(EXTERNAL_DATA_FOLDER_ENTRY)
    model = load_model(model_path, external_data_folder=folder or None)
    if sum(len(graph) for graph in all_graphs(model.graph)) <= _MOST_NODES_INFERRED:
        infer_types(model)
    return loaded_graph_facts(model.graph, plan)


def loaded_graph_facts(graph: Graph, plan: SessionPlan) -> tuple[GraphFacts, ...]:
    """Return the facts of a loaded graph, with types as far as it has them."""
    planned = {item.path: item for item in _planned_graphs(plan.graph)}
    providers = tuple(
        dict.fromkeys((*plan.providers, *(item.provider for item in plan.partitions)))
    )
    numbers = {name: number for number, name in enumerate(providers)}
    return tuple(
        _facts(
            path, subgraph, _Placement(plan.partitions, path, numbers), planned.get(path), providers
        )
        for path, subgraph in _bounded_paths(graph)
    )


class _Placement:
    """Partition of each node of one graph, by the node's name before fusing."""

    def __init__(
        self, partitions: Iterable[Partition], path: str, numbers: Mapping[str, int]
    ) -> None:
        self._numbers = numbers
        self._own = [partition for partition in partitions if partition.graph_path == path]
        self._by_name = {
            name: index
            for index, partition in enumerate(self._own)
            for name in ((partition.fused_node,) if partition.fused_node else ())
            + partition.node_names
        }

    def facts(self) -> tuple[PartitionFact, ...]:
        return tuple(
            PartitionFact(
                provider=self._numbers[partition.provider],
                fused_node=partition.fused_node,
                node_count=len(partition.node_names),
            )
            for partition in self._own
        )

    def partition_of(self, name: str) -> int | None:
        return self._by_name.get(name)

    def provider_of(self, name: str) -> int | None:
        """Return the index of the provider that runs the node of that name, or fused it."""
        partition = self.partition_of(name)
        return None if partition is None else self._numbers[self._own[partition].provider]

    def number_of(self, provider: str) -> int | None:
        return self._numbers.get(provider)


def _planned_graphs(plan: GraphPlan) -> Iterator[GraphPlan]:
    yield plan
    for inner in plan.subgraphs:
        yield from _planned_graphs(inner)


def _bounded_paths(graph: Graph) -> list[tuple[str, Graph]]:
    """Return the graph and its sub-graphs with their paths, as partitions and plans write them."""
    paths: list[tuple[str, Graph]] = []
    pending = [("", graph)]
    while pending and len(paths) < MOST_GRAPHS:
        path, current = pending.pop(0)
        paths.append((path, current))
        pending.extend(
            (f"{path}/{node.name}.{attribute}" if path else f"{node.name}.{attribute}", inner)
            for node in current.nodes
            for attribute, inner in node.subgraphs.items()
        )
    return paths


def _facts(
    path: str,
    graph: Graph,
    placement: _Placement,
    plan: GraphPlan | None,
    providers: tuple[str, ...],
) -> GraphFacts:
    before = _before(graph, placement, plan)
    return GraphFacts(
        path=path,
        providers=providers,
        partitions=placement.facts(),
        before=before,
        after=None if plan is None else _after(plan, placement, before, graph),
    )


# --- the model file -----------------------------------------------------------------------------


def _before(graph: Graph, placement: _Placement, plan: GraphPlan | None) -> GraphStage:
    steps = {} if plan is None else {node.name: node for node in plan.nodes}
    order = topological_order(graph)
    nodes = [graph.node(index) for index in order[:MOST_NODES]]
    names = unique_names(node.name for node in nodes)
    return GraphStage(
        nodes=tuple(
            _file_node(node, name, placement, steps)
            for node, name in zip(nodes, names, strict=True)
        ),
        left_out=len(order) - len(nodes),
        values=_types_of_file(graph, nodes),
        inputs=tuple(name for name in graph.inputs if name not in graph.initializers),
        outputs=graph.outputs,
    )


def _types_of_file(graph: Graph, nodes: Iterable[Node]) -> Mapping[str, str]:
    """Return the types of the nodes' inputs and outputs, including values of outer graphs."""
    ends = dict.fromkeys((*graph.inputs, *graph.outputs))
    used = dict.fromkeys(
        name for node in nodes for name in (*node.inputs, *node.implicit_inputs, *node.outputs)
    )
    texts = {name: type_text(graph.type_of(name)) for name in {**ends, **used} if name}
    return {name: text for name, text in texts.items() if text}


def _file_node(
    node: Node, name: str, placement: _Placement, steps: Mapping[str, PlannedNode]
) -> NodeFact:
    step = steps.get(node.name)
    # A fused node may have the name of a node that it replaces: only with the same operator it is
    # that node.
    runs = step if step is not None and step.op_type == node.op_type else None
    return NodeFact(
        name=name,
        op_type=node.op_type,
        domain=node.domain,
        scope=_exported_scope(node.metadata),
        provider=placement.provider_of(node.name),
        partition=placement.partition_of(node.name),
        step=None if runs is None else runs.step,
        kernel="" if runs is None else runs.kernel,
        inputs=(*node.inputs, *node.implicit_inputs),
        outputs=node.outputs,
    )


def _exported_scope(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """Return the modules around a node, from the list of their full names that torch writes."""
    listed = _QUOTED_NAME.findall(metadata.get(_SCOPE_METADATA, "")[:_MOST_SCOPE_CHARACTERS])
    # The last one is the node's own name.
    modules = [name for name in listed[:-1] if name]
    return tuple(
        module.removeprefix(f"{outer}.")
        for outer, module in zip(["", *modules], modules, strict=False)
    )


# --- as it runs ---------------------------------------------------------------------------------


def _after(plan: GraphPlan, placement: _Placement, before: GraphStage, graph: Graph) -> GraphStage:
    shown = plan.nodes[:MOST_NODES]
    scopes = {node.name: node.scope for node in before.nodes if node.scope}
    # Plans list a node's own inputs; those of its sub-graphs are in the file's node.
    implicit_inputs = {
        node.name: node.implicit_inputs for node in graph.nodes if node.implicit_inputs
    }
    names = unique_names(node.name for node in shown)
    return GraphStage(
        nodes=tuple(
            NodeFact(
                name=name,
                op_type=node.op_type,
                domain=node.domain,
                scope=scopes.get(node.name, ()),
                provider=placement.number_of(node.provider),
                partition=placement.partition_of(node.name),
                step=node.step,
                kernel=node.kernel,
                inputs=(*node.inputs, *implicit_inputs.get(node.name, ())),
                outputs=node.outputs,
            )
            for node, name in zip(shown, names, strict=True)
        ),
        left_out=len(plan.nodes) - len(shown),
        values=_types_as_it_runs(plan, before),
        inputs=before.inputs,
        outputs=before.outputs,
    )


def _types_as_it_runs(plan: GraphPlan, before: GraphStage) -> Mapping[str, str]:
    """Return types from the file if a value kept its name.

    For others, their size in bytes if known.
    """
    sizes = {value.name: f"{value.size} bytes" for value in plan.values if value.size}
    return {name: before.values.get(name, sizes.get(name, "")) for name in _names_in(plan)}


def _names_in(plan: GraphPlan) -> dict[str, None]:
    return dict.fromkeys(name for node in plan.nodes for name in (*node.inputs, *node.outputs))


# --- shared -------------------------------------------------------------------------------------


def unique_names(names: Iterable[str]) -> list[str]:
    """Return ``names``, with numbers for repeated ones: "Add", "Add (2)"."""
    counts: Counter[str] = Counter()
    used: set[str] = set()
    unique = []
    for name in names:
        shown = name
        while shown in used or not shown:
            counts[name] += 1
            shown = f"{name or 'unnamed'} ({counts[name] + 1})"
        used.add(shown)
        unique.append(shown)
    return unique


def type_text(value_type: ValueType | None) -> str:
    """Return a type for people, such as "float32 [batch, 128]", or "" if it is unknown."""
    if value_type is None:
        return ""
    if not isinstance(value_type, TensorType | SparseTensorType):
        return str(value_type)
    element = _NUMBER_NAMES.get(value_type.element_type, value_type.element_type.name.lower())
    kind = "" if isinstance(value_type, TensorType) else "sparse "
    if value_type.shape is None:
        return f"{kind}{element}"
    sizes = ", ".join("?" if size is None else str(size) for size in value_type.shape)
    return f"{kind}{element} [{sizes}]"
