"""What a report shows of a model's graphs: nodes of the file, nodes as they run, and who runs them.

The file is read once more, without its weights; what runs is what the session planned.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ortpkg.engine.partition import Partition
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.topology import all_graphs, topological_order
from ortpkg.graph.types import ElementType, SparseTensorType, TensorType, ValueType
from ortpkg.session.inference_session import InferenceSession
from ortpkg.session.options import EXTERNAL_DATA_FOLDER_ENTRY
from ortpkg.session.session_plan import GraphPlan, PlannedNode, SessionPlan
from ortpkg.shapes.inference import infer_types

#: Of one graph; what is left out is counted.
MOST_NODES = 50_000
#: Graphs of one model; more have loops in loops by the dozen, or are hostile.
MOST_GRAPHS = 50
#: Inferring the sizes of a larger model takes longer than a whole report may.
_MOST_NODES_INFERRED = 10_000
#: Torch writes the modules around a node as a list in Python's notation, outermost first.
_SCOPE_METADATA = "pkg.torch.onnx.name_scopes"
_MOST_SCOPE_CHARACTERS = 4000
_QUOTED_NAME = re.compile(r"'([^']*)'")
_NUMBER_NAMES = {ElementType.FLOAT: "float32", ElementType.DOUBLE: "float64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFact:
    """One node, of the model file or as it runs.

    Attributes:
        name: unique within its stage.
        op_type, domain: the operator; ``domain`` is "" for ONNX's own.
        scope: the modules around the node as its exporter says, outermost first; empty where only
            the name can tell.
        provider: index into ``GraphFacts.providers``; None where no step runs the node, since
            optimizations folded it or fused it into others.
        partition: index into ``GraphFacts.partitions``; None as for ``provider``.
        step: when it runs; None for a node of the file that does not run under its own name.
        kernel: what computes it; "" where ``step`` is None.
        inputs, outputs: value names; "" for one left out.
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
    """What one provider runs in one piece, or node by node.

    Attributes:
        provider: index into ``GraphFacts.providers``.
        fused_node: name of the node that stands for its nodes; "" where they run one by one.
        node_count: how many nodes it had before fusing.
    """

    provider: int
    fused_node: str
    node_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphStage:
    """A graph's nodes in execution order.

    Attributes:
        nodes: at most ``MOST_NODES``.
        left_out: how many nodes there are beyond them.
        values: name → type and sizes, such as "float32 [batch, 128, 768]", where they are known.
        inputs, outputs: names of values, without those of weights.
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
        path: "" for the main graph, else the way to the sub-graph, e.g. ``"loop_0.body"``.
        providers: names, in order of priority.
        partitions: in order of assignment.
        before: as the model file says.
        after: as it runs, each fused partition one node; None for a sub-graph that no plan has
            since a node around it was fused, or optimized away.
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
    """The main graph of ``model_path`` and then its sub-graphs, as ``session`` planned them.

    At most ``MOST_GRAPHS`` graphs. ``plan``: the session's, where the caller has it.

    Raises ModelError where the file is not there any more, or has changed since the session read it
    in a way that no session could read.
    """
    plan = session.get_plan() if plan is None else plan
    folder = session.get_session_options().config_entries.get(EXTERNAL_DATA_FOLDER_ENTRY)
    model = load_model(model_path, external_data_folder=folder or None)
    if sum(len(graph) for graph in all_graphs(model.graph)) <= _MOST_NODES_INFERRED:
        infer_types(model)
    return facts_of_graphs(model.graph, plan)


def facts_of_graphs(graph: Graph, plan: SessionPlan) -> tuple[GraphFacts, ...]:
    """The same of a graph that is loaded, with types as far as it has them."""
    planned = {each.path: each for each in _planned_graphs(plan.graph)}
    providers = tuple(
        dict.fromkeys((*plan.providers, *(each.provider for each in plan.partitions)))
    )
    numbers = {name: number for number, name in enumerate(providers)}
    return tuple(
        _facts(path, own, _Placement(plan.partitions, path, numbers), planned.get(path), providers)
        for path, own in _bounded_paths(graph)
    )


class _Placement:
    """Which partition of one graph a node belongs to, by the name that it had before fusing."""

    def __init__(
        self, partitions: Iterable[Partition], path: str, numbers: Mapping[str, int]
    ) -> None:
        self._numbers = numbers
        self._own = [each for each in partitions if each.graph_path == path]
        self._by_name = {
            name: index
            for index, each in enumerate(self._own)
            for name in ((each.fused_node,) if each.fused_node else ()) + each.node_names
        }

    def facts(self) -> tuple[PartitionFact, ...]:
        return tuple(
            PartitionFact(
                provider=self._numbers[each.provider],
                fused_node=each.fused_node,
                node_count=len(each.node_names),
            )
            for each in self._own
        )

    def partition_of(self, name: str) -> int | None:
        return self._by_name.get(name)

    def provider_of(self, name: str) -> int | None:
        """Index of the provider that runs the node of that name, or that took it to be fused."""
        partition = self.partition_of(name)
        return None if partition is None else self._numbers[self._own[partition].provider]

    def number_of(self, provider: str) -> int | None:
        return self._numbers.get(provider)


def _planned_graphs(plan: GraphPlan) -> Iterator[GraphPlan]:
    yield plan
    for inner in plan.subgraphs:
        yield from _planned_graphs(inner)


def _bounded_paths(graph: Graph) -> list[tuple[str, Graph]]:
    """The graph and those inside it with their ways, written as partitions and plans write them."""
    found: list[tuple[str, Graph]] = []
    pending = [("", graph)]
    while pending and len(found) < MOST_GRAPHS:
        path, current = pending.pop(0)
        found.append((path, current))
        pending.extend(
            (f"{path}/{node.name}.{attribute}" if path else f"{node.name}.{attribute}", inner)
            for node in current.nodes
            for attribute, inner in node.subgraphs.items()
        )
    return found


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
    """Types of what the nodes take and make, values of graphs around a sub-graph among them."""
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
    # A fusion gives its node the name of one of those it replaces: only the same operator is it.
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
    """Names of the modules around a node, from the list of their full names that torch writes."""
    listed = _QUOTED_NAME.findall(metadata.get(_SCOPE_METADATA, "")[:_MOST_SCOPE_CHARACTERS])
    # The last one is the node's own.
    modules = [each for each in listed[:-1] if each]
    return tuple(
        own.removeprefix(f"{outer}.") for outer, own in zip(["", *modules], modules, strict=False)
    )


# --- as it runs ---------------------------------------------------------------------------------


def _after(plan: GraphPlan, placement: _Placement, before: GraphStage, graph: Graph) -> GraphStage:
    shown = plan.nodes[:MOST_NODES]
    scopes = {node.name: node.scope for node in before.nodes if node.scope}
    # Plans list what a node itself takes; what its sub-graphs take, the file's node says.
    taken_inside = {node.name: node.implicit_inputs for node in graph.nodes if node.implicit_inputs}
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
                inputs=(*node.inputs, *taken_inside.get(node.name, ())),
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
    """Types of the file, where a value kept its name; of other values, their bytes if known."""
    sizes = {value.name: f"{value.size} bytes" for value in plan.values if value.size}
    return {name: before.values.get(name, sizes.get(name, "")) for name in _names_in(plan)}


def _names_in(plan: GraphPlan) -> dict[str, None]:
    return dict.fromkeys(name for node in plan.nodes for name in (*node.inputs, *node.outputs))


# --- shared -------------------------------------------------------------------------------------


def unique_names(names: Iterable[str]) -> list[str]:
    """``names``, in which what came before gets a number: "Add", "Add (2)"."""
    seen: Counter[str] = Counter()
    taken: set[str] = set()
    found = []
    for name in names:
        shown = name
        while shown in taken or not shown:
            seen[name] += 1
            shown = f"{name or 'unnamed'} ({seen[name] + 1})"
        taken.add(shown)
        found.append(shown)
    return found


def type_text(known: ValueType | None) -> str:
    """A type for people: "float32 [batch, 128]"; "" where nothing is known."""
    if known is None:
        return ""
    if not isinstance(known, TensorType | SparseTensorType):
        return str(known)
    element = _NUMBER_NAMES.get(known.element_type, known.element_type.name.lower())
    kind = "" if isinstance(known, TensorType) else "sparse "
    if known.shape is None:
        return f"{kind}{element}"
    sizes = ", ".join("?" if size is None else str(size) for size in known.shape)
    return f"{kind}{element} [{sizes}]"
