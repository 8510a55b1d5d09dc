"""The graph: nodes, named values, initializers, and use lists that only its methods change.

Values are identified by name, as in ONNX; names are unique over a graph and the graphs around it.
An empty name is an optional input or output that is left out. A node's sub-graphs (If, Loop, Scan)
are attributes; values that they use from the graph around them count as used by their node (an
*implicit input*), so that no value is freed too early.

A graph is mutable until it is planned. Read it through the public attributes, and change it only
through the methods of :class:`Graph`, which keep ``producer_of`` and ``consumers_of`` right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ortpkg.foundations.errors import InvalidGraphError, quoted
from ortpkg.graph.graph_parts import (
    MICROSOFT_DOMAIN,
    ML_DOMAIN,
    ONNX_DOMAIN,
    ArrayInitializer,
    Attribute,
    Initializer,
    ValueAnnotation,
)
from ortpkg.graph.load_control import poll_load
from ortpkg.graph.name_stock import NameStock
from ortpkg.graph.operator_call import OperatorCall
from ortpkg.graph.types import ValueType
from ortpkg.graph.use_lists import Use, UseLists

__all__ = [
    "MICROSOFT_DOMAIN",
    "ML_DOMAIN",
    "ONNX_DOMAIN",
    "ArrayInitializer",
    "Attribute",
    "Graph",
    "Initializer",
    "Node",
    "Use",
    "ValueAnnotation",
]


class Node(OperatorCall):
    """One operator application. Change it only through its graph."""

    __slots__ = ()

    @property
    def subgraphs(self) -> dict[str, Graph]:
        """The graph attributes by name (GRAPHS attributes as ``name[i]``)."""
        graphs: dict[str, Graph] = {}
        for name, attribute in self.attributes.items():
            if attribute.kind == "GRAPH":
                graphs[name] = attribute.value
            elif attribute.kind == "GRAPHS":
                graphs.update({f"{name}[{i}]": graph for i, graph in enumerate(attribute.value)})
        return graphs


class Graph:
    """Nodes in insertion order, with producers and consumers of every value.

    Attributes:
        name: the graph's name.
        opset_imports: domain → version; one dictionary shared by a model's main graph and all its
            sub-graphs.
        inputs, outputs: value names in order.
        types: value name → type, for every value whose type is known.
        known_elements: value name → its elements, for small tensors of whole numbers that inference
            followed; sizes that only a run can tell as text, as in types.
        initializers: name → constant. An initializer that is also an input is only a default value.
        annotations: value name → what a model says of a value beyond its type; only for values with
            any.
        quantization_annotations: value name → ONNX's quantization parameters (key → value name),
            carried along.
        parent: the graph around a sub-graph, else None.
    """

    def __init__(
        self,
        name: str = "",
        *,
        opset_imports: Mapping[str, int] | None = None,
        parent: Graph | None = None,
    ) -> None:
        self.name = name
        self.parent = parent
        if parent is not None and opset_imports is None:
            self.opset_imports: dict[str, int] = parent.opset_imports
        else:
            self.opset_imports = dict(opset_imports or {})
        self.types: dict[str, ValueType] = {}
        self.known_elements: dict[str, tuple[int | str, ...]] = {}
        self.initializers: dict[str, Initializer] = {}
        self.doc_string = ""
        self.metadata: dict[str, str] = {}
        self.annotations: dict[str, ValueAnnotation] = {}
        self.quantization_annotations: dict[str, Mapping[str, str]] = {}
        # Dictionaries, not sets: they keep the order and find a name at once.
        self._inputs: dict[str, int] = {}
        # A list while the names of outputs are exchanged one by one, a tuple again at the next
        # read.
        self._outputs: tuple[str, ...] | list[str] = ()
        self._output_slots: dict[str, list[int]] = {}
        self._nodes: dict[int, Node] = {}
        self._next_index = 0
        self._positions: dict[int, int] = {}
        #: Written by the mutators here alone.
        self.use_lists = UseLists()
        self._own_names = NameStock()

    # --- reading ----------------------------------------------------------------------------------

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names in order, including those of initializers that a caller may override."""
        return tuple(self._inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the graph's outputs, in order."""
        if isinstance(self._outputs, list):
            self._outputs = tuple(self._outputs)
        return self._outputs

    @property
    def nodes(self) -> Iterator[Node]:
        """All nodes in insertion order (not necessarily a topological one)."""
        poll_load()
        return iter(tuple(self._nodes.values()))

    def __len__(self) -> int:
        return len(self._nodes)

    def node(self, index: int) -> Node:
        """Return the node with that index; KeyError if it was removed or never existed."""
        return self._nodes[index]

    def has_node(self, index: int) -> bool:
        """Return True if a node with that index was added and not removed."""
        return index in self._nodes

    def position_of(self, node: Node) -> int:
        """Return the position by which nodes are ordered when nothing else decides.

        The position of a removed node stays known.
        """
        return self._positions.get(node.index, node.index)

    def producer_of(self, value: str) -> Node | None:
        """Return the node of this graph that makes ``value``.

        None for inputs, initializers and outer values.
        """
        producer = self.use_lists.producers.get(value)
        return None if producer is None else self._nodes[producer[0]]

    def consumers_of(self, value: str) -> tuple[Use, ...]:
        """Return every use of ``value`` by nodes of this graph, in the order of their addition."""
        return tuple(self.use_lists.uses.get(value, ()))

    def use_count(self, value: str) -> int:
        """Return the number of uses in ``consumers_of``, without a list: there may be thousands."""
        return len(self.use_lists.uses.get(value, ()))

    def consumer_nodes(self, value: str) -> list[Node]:
        """Return the nodes that use ``value``, each once."""
        return [
            self._nodes[i]
            for i in dict.fromkeys(use.node_index for use in self.use_lists.uses.get(value, ()))
        ]

    def is_output(self, value: str) -> bool:
        """Return True if ``value`` is an output of this graph."""
        return value in self._output_slots

    def is_input(self, value: str) -> bool:
        """Return True if ``value`` is an input of this graph, perhaps with a default."""
        return value in self._inputs

    def input_place(self, value: str) -> int | None:
        """Return the position of the value in ``inputs``; None if it is no input."""
        return self._inputs.get(value)

    def output_place(self, value: str) -> int | None:
        """Return the first position of the value in ``outputs``; None if it is no output."""
        slots = self._output_slots.get(value)
        return None if slots is None else min(slots)

    def is_constant(self, value: str) -> bool:
        """Return True if ``value`` is an initializer that no caller can override."""
        return value in self.initializers and value not in self._inputs

    def used_values(self) -> tuple[str, ...]:
        """Return every value that a node of this graph uses, in order of first use."""
        return tuple(self.use_lists.uses)

    def type_of(self, value: str) -> ValueType | None:
        """Return the type of a value of this graph or of a graph around it."""
        graph: Graph | None = self
        while graph is not None:
            if value in graph.types:
                return graph.types[value]
            graph = graph.parent
        return None

    def elements_of(self, value: str) -> tuple[int | str, ...] | None:
        """Return the known elements of a value of this graph or of a graph around it."""
        graph: Graph | None = self
        while graph is not None:
            if value in graph.known_elements or graph.defines(value):
                return graph.known_elements.get(value)
            graph = graph.parent
        return None

    def constant(self, value: str) -> Initializer | None:
        """Return the constant of that name in this graph or a graph around it.

        None if the value is not constant.
        """
        graph: Graph | None = self
        while graph is not None:
            if graph.is_constant(value):
                return graph.initializers[value]
            if value in graph.use_lists.producers or value in graph._inputs:
                return None
            graph = graph.parent
        return None

    def defines(self, value: str) -> bool:
        """Return True if ``value`` is defined in this graph, not in one around it."""
        return (
            value in self.use_lists.producers or value in self.initializers or value in self._inputs
        )

    # --- writing ----------------------------------------------------------------------------------

    def set_inputs(self, names: Sequence[str]) -> None:
        """Set the names of the graph's inputs.

        Raises:
            InvalidGraphError: if a name occurs twice, or a node makes that value.
        """
        inputs = {name: position for position, name in enumerate(names)}
        if len(inputs) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidGraphError(
                f"graph {quoted(self.name)} has the input {quoted(twice)} twice"
            )
        made = next((name for name in names if name in self.use_lists.producers), None)
        if made is not None:
            raise InvalidGraphError(
                f"{quoted(made)} is both an input of the graph and a node's output"
            )
        self._inputs = inputs
        self._names.take(names)

    def set_outputs(self, names: Sequence[str]) -> None:
        """Set the names of the graph's outputs, without a check that something makes them."""
        self._outputs = tuple(names)
        self._output_slots = {}
        for slot, name in enumerate(names):
            self._output_slots.setdefault(name, []).append(slot)
        self._names.take(names)

    def set_type(self, value: str, value_type: ValueType) -> None:
        """Set the type of a value of this graph, replacing the former one."""
        self.types[value] = value_type

    def add_initializer(self, initializer: Initializer) -> None:
        """Add or replace a constant; InvalidGraphError if a node already makes that value."""
        if initializer.name in self.use_lists.producers:
            raise InvalidGraphError(
                f"{quoted(initializer.name)} is both an initializer and a node's output"
            )
        self.initializers[initializer.name] = initializer
        self._names.take((initializer.name,))

    def remove_initializer(self, name: str) -> None:
        """Remove a constant.

        Its uses stay, for the caller to replace. KeyError if there is no such constant.
        """
        del self.initializers[name]

    def add_node(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        domain: str = ONNX_DOMAIN,
        name: str = "",
        attributes: Mapping[str, Attribute] | None = None,
        since_version: int = 0,
        implicit_inputs: Sequence[str] = (),
        execution_provider: str = "",
        doc_string: str = "",
        metadata: Mapping[str, str] | None = None,
        at: Node | None = None,
    ) -> Node:
        """Add a node at the end, or at the position of ``at``, which it replaces in a rewrite.

        Raises:
            InvalidGraphError: if one of its outputs already has a producer.
        """
        index = self._next_index
        node = Node(
            index=index,
            name=name or f"{op_type}_{index}",
            op_type=op_type,
            domain=domain,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            attributes=dict(attributes or {}),
            since_version=since_version,
            execution_provider=execution_provider,
            implicit_inputs=tuple(implicit_inputs),
            doc_string=doc_string,
            metadata=dict(metadata or {}),
        )
        self._check_outputs_are_free(node, node.outputs)
        self._next_index += 1
        self._nodes[index] = node
        if at is not None:
            self._positions[index] = self.position_of(at)
        self.use_lists.add_outputs(node)
        self._names.take(node.outputs)
        self.use_lists.add_uses(node)
        return node

    def add_copy(self, node: Node) -> Node:
        """Add a node like ``node`` of another graph at the end, not assigned to any provider."""
        return self.add_node(
            node.op_type,
            node.inputs,
            node.outputs,
            domain=node.domain,
            name=node.name,
            attributes=node.attributes,
            since_version=node.since_version,
            implicit_inputs=node.implicit_inputs,
            doc_string=node.doc_string,
            metadata=node.metadata,
        )

    def remove_node(self, node: Node) -> None:
        """Remove a node; give its outputs another producer, or replace their uses first."""
        self.use_lists.remove_uses(node)
        self.use_lists.remove_outputs(node)
        del self._nodes[node.index]

    def replace_input(self, node: Node, slot: int, value: str) -> None:
        """Make ``node`` take ``value`` at ``slot`` (0 ≤ slot < number of inputs)."""
        use = Use(node.index, slot)
        self.use_lists.remove_use(node.exchange_input(slot, value), use)
        self.use_lists.add_use(value, use)

    def set_implicit_inputs(self, node: Node, values: Sequence[str]) -> None:
        """Set the values that sub-graphs of ``node`` use from this graph and those around it."""
        self.use_lists.remove_uses(node)
        node.implicit_inputs = tuple(values)
        self.use_lists.add_uses(node)

    def set_node_outputs(self, node: Node, outputs: Sequence[str]) -> None:
        """Set the names of the outputs of ``node``.

        Raises:
            InvalidGraphError: if another node makes one of them; nothing has changed then.
        """
        self._check_outputs_are_free(node, outputs)
        self.use_lists.remove_outputs(node)
        node.outputs = tuple(outputs)
        self.use_lists.add_outputs(node)
        self._names.take(node.outputs)

    def rename_output(self, node: Node, old: str, new: str) -> None:
        """Rename one output of ``node``.

        Its other outputs are not looked at: there may be thousands, each of which gets a new name.

        Raises:
            InvalidGraphError: if ``new`` is defined already; nothing has changed then.
        """
        if self.defines(new):
            raise InvalidGraphError(
                f"{node}: its output {quoted(new)} already has a producer", node_name=node.name
            )
        self.use_lists.rename_output(node, old, new)
        self._names.take((new,))

    def set_attributes(self, node: Node, attributes: Mapping[str, Attribute]) -> None:
        """Set the attributes of ``node``; set_implicit_inputs is for values that sub-graphs use."""
        node.attributes = dict(attributes)

    def assign(self, node: Node, execution_provider: str) -> None:
        """Assign a node to an execution provider (partitioning)."""
        node.execution_provider = execution_provider

    def replace_all_uses(self, old: str, new: str) -> None:
        """Make every consumer of ``old`` in this graph, sub-graphs included, take ``new`` instead.

        Graph outputs keep their names: to replace an output as well, change the producer instead.
        """
        if old == new:
            return
        # Only the uses of these two values change: a consumer may have thousands of other inputs.
        for use in self.use_lists.take_uses(old):
            node = self._nodes[use.node_index]
            if use.slot >= 0:
                node.exchange_input(use.slot, new)
            else:
                node.exchange_implicit_input(old, new)
                for subgraph in node.subgraphs.values():
                    subgraph.replace_outer_uses(old, new)
            self.use_lists.add_use(new, use)

    def replace_outer_uses(self, old: str, new: str) -> None:
        """Replace the outer value ``old`` by ``new`` in a sub-graph, also among its outputs."""
        self.replace_all_uses(old, new)
        if old == new or old not in self._output_slots:
            return
        slots = self._output_slots.pop(old)
        if not isinstance(self._outputs, list):
            self._outputs = list(self._outputs)
        for slot in slots:
            self._outputs[slot] = new
        self._output_slots.setdefault(new, []).extend(slots)
        self._names.take((new,))

    def outer_values(self) -> tuple[str, ...]:
        """Return a sub-graph's implicit inputs from the graphs around it, in order of first use."""
        used = [value for value in self.use_lists.uses if not self.defines(value)]
        return tuple(
            dict.fromkeys(
                [*used, *(value for value in self._outputs if value and not self.defines(value))]
            )
        )

    def reserve_names(self, names: Iterable[str]) -> None:
        """Keep :meth:`make_name` from making these names up."""
        self._names.take(names)

    def make_name(self, stem: str) -> str:
        """Return a value name that no graph of this model has used yet, sub-graphs included."""
        return self._names.make(stem)

    def _check_outputs_are_free(self, node: Node, outputs: Sequence[str]) -> None:
        earlier: set[str] = set()
        for output in outputs:
            made_elsewhere = self.use_lists.producers.get(output, (node.index, 0))[0] != node.index
            if output and (
                made_elsewhere
                or output in earlier
                or output in self.initializers
                or output in self._inputs
            ):
                raise InvalidGraphError(
                    f"{node}: its output {quoted(output)} already has a producer",
                    node_name=node.name,
                )
            earlier.add(output)

    @property
    def _names(self) -> NameStock:
        """The name stock of the outermost graph; a sub-graph may get a new graph around it."""
        return self._own_names if self.parent is None else self.parent._names
