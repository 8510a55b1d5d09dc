"""Infers the types of a graph's values, from inputs and constants to outputs.

Sizes are expressions over the symbols of the model's inputs during inference; a graph's types
then contain their text, so that equal sizes have equal names. Sub-graphs are inferred with their
node. A node whose inputs do not fit each other leaves only its own outputs open.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from ortpkg.foundations.errors import InvalidGraphError, quoted
from ortpkg.graph.graph import Graph, Initializer, Node
from ortpkg.graph.load_control import poll_load
from ortpkg.graph.model import Model
from ortpkg.graph.shapes.custom_operator_shapes import find_custom_inference
from ortpkg.graph.shapes.expression_text import size_of_text
from ortpkg.graph.shapes.expressions import Expression, Size, TooLargeError, symbol, symbols_of
from ortpkg.graph.shapes.knowledge import (
    MOST_ELEMENTS,
    Elements,
    Knowledge,
    KnownOptional,
    KnownOther,
    KnownSequence,
    KnownTensor,
    Sizes,
    type_of,
)
from ortpkg.graph.shapes.operator_inference import find_inference
from ortpkg.graph.shapes.output_types import output_by_definition
from ortpkg.graph.shapes.shape_context import (
    InferenceFunction,
    ShapeContext,
    ShapeError,
    constant_knowledge,
)
from ortpkg.graph.topology import all_graphs, topological_order
from ortpkg.graph.types import (
    Dimension,
    ElementType,
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    TensorType,
    ValueType,
)

_log = logging.getLogger(__name__)

#: Environment variable: "1" raises unexpected errors of shape functions, which otherwise leave
#: shapes open.
STRICT_VARIABLE = "ORTPKG_STRICT_SHAPES"

#: Most visits of each node of sub-graphs, since nested loops are visited until nothing changes.
_VISITS_PER_NODE = 16
#: Largest tensor whose elements are passed on to partitions; larger ones hold no shapes.
_MOST_TOLD_ELEMENTS = 64
_FEWEST_VISITS = 1000
#: Exporters' names for unknown dimensions, which do not mean equal sizes.
_UNKNOWN_WORDS = frozenset({"?", "-1", "*", "none", "null", "unknown", "undefined", "dynamic"})


def types_are_known(model: Model, *, with_sizes: bool) -> bool:
    """Return True if each node's outputs have types, so that inference adds nothing.

    With ``with_sizes``, all sizes must be known too.
    """
    for graph in all_graphs(model.graph):
        for node in graph.nodes:
            for output in node.outputs:
                value_type = graph.types.get(output)
                if output and (value_type is None or (with_sizes and not _is_static(value_type))):
                    return False
    return True


def _is_static(value_type: ValueType) -> bool:
    return isinstance(value_type, TensorType) and value_type.is_static


def dimension_names(graph: Graph) -> list[str]:
    """Return the names of symbolic dimensions that the model declares, each once."""
    names: dict[str, None] = {}
    for current in all_graphs(graph):
        for value_type in current.types.values():
            names |= dict.fromkeys(
                name for name in _shape_of(value_type) or () if isinstance(name, str)
            )
    return list(names)


def infer_types(model: Model) -> None:
    """Fill ``graph.types`` of the main graph and of all sub-graphs.

    A model's declarations are kept where inference finds nothing, and for names of output
    dimensions. If a declared dimension and an inferred one differ, neither is trusted.

    Raises:
        InvalidGraphError: if a declared element type or kind contradicts the node's output.
    """
    infer_sizes(model)


def infer_sizes(model: Model) -> Mapping[str, Knowledge]:
    """Return the knowledge of the main graph's values, with sizes in its inputs' symbols.

    It fills ``graph.types`` and raises as :func:`infer_types` does.
    """
    for graph in all_graphs(model.graph):
        if graph is not model.graph:
            graph.known_elements = {}  # stays empty for a loop that takes too many rounds
        for name, initializer in graph.initializers.items():
            graph.types.setdefault(name, TensorType(initializer.element_type, initializer.shape))
    return _Inference(model.graph).run()


class _Scope:
    """Knowledge of the values of one graph, with the graphs around it."""

    def __init__(self, graph: Graph, outer: _Scope | None) -> None:
        self.graph = graph
        self.outer = outer
        self.values: dict[str, Knowledge] = {}

    def find(self, name: str) -> Knowledge | None:
        """Return the knowledge of a value, also from the graphs around; None for hidden values."""
        scope: _Scope | None = self
        while scope is not None:
            knowledge = scope.values.get(name)
            if knowledge is not None:
                return knowledge
            if scope.graph.defines(name):
                return None
            scope = scope.outer
        return None


class _Inference:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._declared = {
            name
            for value in graph.inputs
            for name in _shape_of(graph.types.get(value)) or ()
            if isinstance(name, str)
        }
        self._reserved_names = frozenset(dimension_names(graph)) | {
            element_symbol.name
            for size in self._given_elements()
            for element_symbol in symbols_of(size)
        }
        self._count = 0
        self._visits_left = _VISITS_PER_NODE * sum(map(len, all_graphs(graph))) + _FEWEST_VISITS
        self._scopes: dict[int, _Scope] = {}
        #: True once a declared number of an inner value has replaced an unknown size.
        self._trusts_declarations = False

    def run(self) -> Mapping[str, Knowledge]:
        """Infer and write the types of all graphs; return the knowledge of the main graph."""
        scope = _Scope(self._graph, None)
        for name in self._graph.inputs:
            declared = self._declared_knowledge(self._graph.types.get(name))
            self._set(scope, name, self._with_given_elements(name, declared))
        self._infer_graph(scope)
        for inner_scope in self._scopes.values():
            self._write_types(inner_scope)
        return scope.values

    # --- what is known of a partition's inputs ----------------------------------------------------

    def _given_elements(self) -> Iterator[Size]:
        """Yield the known elements of the main graph's inputs."""
        for name in self._graph.inputs:
            for element in self._graph.known_elements.get(name, ()):
                yield self._size_of(element)

    def _size_of(self, element: int | str) -> Size:
        return element if isinstance(element, int) else size_of_text(element, self._declared)

    def _with_given_elements(self, name: str, knowledge: Knowledge | None) -> Knowledge | None:
        """Return an input's knowledge with the elements known outside the partition."""
        given_elements = self._graph.known_elements.get(name)
        if (
            given_elements is None
            or not isinstance(knowledge, KnownTensor)
            or knowledge.shape is None
        ):
            return knowledge
        counts = tuple(size for size in knowledge.shape if isinstance(size, int))
        if len(counts) < len(knowledge.shape) or math.prod(counts) != len(given_elements):
            return knowledge
        elements = Elements(counts, tuple(map(self._size_of, given_elements)))
        return replace(knowledge, elements=elements).with_elements_in_range()

    # --- graphs -----------------------------------------------------------------------------------

    def _infer_graph(self, scope: _Scope) -> list[Knowledge | None]:
        graph = scope.graph
        self._scopes[id(graph)] = scope
        for name, initializer in graph.initializers.items():
            if not graph.is_input(name):
                scope.values[name] = constant_knowledge(initializer)
        for index in topological_order(graph):
            self._infer_node(scope, graph.node(index))
        return [scope.find(name) for name in graph.outputs]

    def _infer_subgraph(
        self, outer: _Scope, graph: Graph, inputs: Sequence[Knowledge | None]
    ) -> list[Knowledge | None]:
        scope = _Scope(graph, outer)
        self._visits_left -= len(graph) + 1
        if self._visits_left < 0:
            return self._give_up(scope)
        for index, name in enumerate(graph.inputs):
            knowledge = inputs[index] if index < len(inputs) else None
            declared = self._declared_knowledge(graph.types.get(name))
            self._set(scope, name, declared if knowledge is None else knowledge)
        return self._infer_graph(scope)

    def _give_up(self, scope: _Scope) -> list[Knowledge | None]:
        """Forget what earlier rounds found in a sub-graph, and return nothing for its outputs."""
        for graph in all_graphs(scope.graph):
            self._scopes.pop(id(graph), None)
        return [None] * len(scope.graph.outputs)

    # --- nodes ------------------------------------------------------------------------------------

    def _infer_node(self, scope: _Scope, node: Node) -> None:
        poll_load()
        inputs = [scope.find(name) if name else None for name in node.inputs]
        made = self._made(scope, node, inputs)
        for slot, name in enumerate(node.outputs):
            if name:
                inferred = _with_type(made.get(slot), output_by_definition(node, slot, inputs))
                declared = scope.graph.types.get(name)
                reconciled = self._reconciled(name, node, inferred, declared)
                self._set(scope, name, reconciled)
                if scope.graph.use_count(name) and _adds_numbers(inferred, reconciled):
                    self._trusts_declarations = True

    def _made(
        self, scope: _Scope, node: Node, inputs: Sequence[Knowledge | None]
    ) -> dict[int, Knowledge]:
        function = find_inference(node.domain, node.op_type) or find_custom_inference(node)
        if function is None:
            return {}
        try:
            return self._called(function, scope, node, inputs)
        except (ShapeError, TooLargeError) as error:
            _log.info("shapes of %s: %s", node, quoted(error))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # Unexpected ranks, counts and attributes; a run reports what is wrong with them.
            if os.environ.get(STRICT_VARIABLE) == "1":
                error.add_note(f"raised by the shape function of {node}")
                raise
            _log.warning(
                "shapes of %s are left open: %s: %s", node, type(error).__name__, quoted(error)
            )
        return {}

    def _called(
        self,
        function: InferenceFunction,
        scope: _Scope,
        node: Node,
        inputs: Sequence[Knowledge | None],
    ) -> dict[int, Knowledge]:
        """Return the outputs' knowledge by the operator's function, which may raise.

        If sizes exceed the bounds of expressions, it is called again with inputs whose sizes are
        single symbols.
        """
        context = self._context(scope, node, inputs)
        try:
            function(context)
        except TooLargeError:
            context = self._context(scope, node, [self._simple(knowledge) for knowledge in inputs])
            function(context)
        return context.made

    def _context(
        self, scope: _Scope, node: Node, inputs: Sequence[Knowledge | None]
    ) -> ShapeContext:
        def constants(name: str) -> npt.NDArray[Any] | None:
            initializer = scope.graph.constant(name) or _constant_node_value(scope, name)
            return (
                initializer.numpy()
                if initializer is not None and math.prod(initializer.shape) <= MOST_ELEMENTS
                else None
            )

        return ShapeContext(
            node,
            inputs,
            constants=constants,
            new_size=self._new_size,
            infer_subgraph=lambda graph, arguments: self._infer_subgraph(scope, graph, arguments),
        )

    def _new_size(self) -> Expression:
        while (name := f"unk__{self._count}") in self._reserved_names:
            self._count += 1
        self._count += 1
        return symbol(name, is_anonymous=True)

    def _simple(self, knowledge: Knowledge | None) -> Knowledge | None:
        """Return the knowledge with a new symbol for each size that is a longer expression."""
        if not isinstance(knowledge, KnownTensor) or knowledge.shape is None:
            return knowledge
        shape = tuple(
            size if isinstance(size, int) or size.symbol else self._new_size()
            for size in knowledge.shape
        )
        return KnownTensor(knowledge.element_type, shape)

    @staticmethod
    def _set(scope: _Scope, name: str, knowledge: Knowledge | None) -> None:
        if knowledge is not None:
            scope.values[name] = knowledge

    # --- what the model declares ------------------------------------------------------------------

    def _declared_knowledge(self, declared: ValueType | None) -> Knowledge | None:
        if isinstance(declared, TensorType | SparseTensorType):
            shape = (
                None if declared.shape is None else tuple(map(self._declared_size, declared.shape))
            )
            return KnownTensor(
                declared.element_type, shape, is_sparse=isinstance(declared, SparseTensorType)
            )
        if isinstance(declared, SequenceType):
            return KnownSequence(self._declared_knowledge(declared.element))
        if isinstance(declared, OptionalType):
            return KnownOptional(self._declared_knowledge(declared.element))
        return None if declared is None else KnownOther(declared)

    def _declared_size(self, dimension: Dimension) -> Size:
        if isinstance(dimension, int):
            return dimension
        if dimension is None or dimension.lower() in _UNKNOWN_WORDS:
            return self._new_size()
        return symbol(dimension)

    def _reconciled(
        self, name: str, node: Node, inferred: Knowledge | None, declared: ValueType | None
    ) -> Knowledge | None:
        """Return the knowledge of a value that the model declares and a node makes."""
        if declared is None or inferred is None:
            return self._declared_knowledge(declared) if inferred is None else inferred
        made = type_of(inferred, self._dimension)
        if made is not None and str(declared) != str(made):
            raise InvalidGraphError(
                f"{quoted(name)} is declared as {declared}, but {node} makes a {made}",
                node_name=node.name,
            )
        if isinstance(inferred, KnownTensor) and isinstance(declared, TensorType):
            return KnownTensor(
                inferred.element_type if made is not None else declared.element_type,
                self._reconciled_shape(inferred.shape, declared.shape),
                inferred.elements,
                count=inferred.count,
            )
        return inferred if made is not None else self._declared_knowledge(declared)

    def _reconciled_shape(self, inferred: Sizes | None, declared: Shape | None) -> Sizes | None:
        if inferred is None:
            return None if declared is None else tuple(map(self._declared_size, declared))
        if declared is None:
            return inferred
        if len(inferred) != len(declared):
            return None
        return tuple(
            size
            if not isinstance(declared_size, int) or size == declared_size
            else (self._new_size() if isinstance(size, int) else declared_size)
            for size, declared_size in zip(inferred, declared, strict=True)
        )

    # --- results ----------------------------------------------------------------------------------

    def _write_types(self, scope: _Scope) -> None:
        graph = scope.graph
        graph.known_elements = {
            name: tuple(map(self._dimension, sizes))
            for name, knowledge in scope.values.items()
            # trusted declarations need a guard, and there are no guards for elements
            if (not self._trusts_declarations or graph.is_input(name))
            and name not in graph.initializers
            and (sizes := _followed_elements(knowledge)) is not None
        }
        for name, knowledge in scope.values.items():
            is_given = graph is not self._graph and graph.is_input(name)  # from the outer node
            if graph.producer_of(name) is None and name in graph.types and not is_given:
                continue
            value_type = type_of(knowledge, self._dimension)
            keeps_names = graph is self._graph and graph.is_output(name)
            if value_type is not None:
                graph.set_type(
                    name,
                    _with_names(value_type, graph.types.get(name)) if keeps_names else value_type,
                )

    def _dimension(self, size: Size) -> int | str:
        if isinstance(size, int):
            return size
        if size.symbol is not None:
            return size.symbol.name
        text = str(size)
        poll_load(len(text))
        return f"({text})" if text in self._declared else text


def _constant_node_value(scope: _Scope, name: str) -> Initializer | None:
    """Return the tensor of the Constant node that makes a value of this graph, else None."""
    producer = scope.graph.producer_of(name)
    return (
        producer.attribute("value")
        if producer is not None and producer.op_type == "Constant"
        else None
    )


def _adds_numbers(inferred: Knowledge | None, reconciled: Knowledge | None) -> bool:
    """Return True if a declared number is a size that inference did not find."""
    shape = inferred.shape if isinstance(inferred, KnownTensor) else None
    if not isinstance(reconciled, KnownTensor) or reconciled.shape is None:
        return False
    if shape is None:
        return any(isinstance(size, int) for size in reconciled.shape)
    return any(
        isinstance(size, int) and size != inferred_size
        for size, inferred_size in zip(reconciled.shape, shape, strict=True)
    )


def _followed_elements(knowledge: Knowledge) -> Sizes | None:
    """Return the elements that are passed on to partitions that have the value as an input."""
    if not isinstance(knowledge, KnownTensor) or knowledge.elements is None:
        return None
    return (
        knowledge.elements.sizes if len(knowledge.elements.values) <= _MOST_TOLD_ELEMENTS else None
    )


def _shape_of(value_type: ValueType | None) -> Shape | None:
    return value_type.shape if isinstance(value_type, TensorType | SparseTensorType) else None


def _with_type(knowledge: Knowledge | None, by_definition: Knowledge | None) -> Knowledge | None:
    """Return the knowledge, with the definition's element type if the function set none."""
    if knowledge is None:
        return by_definition
    if isinstance(knowledge, KnownTensor) and knowledge.element_type is ElementType.UNDEFINED:
        if not isinstance(by_definition, KnownTensor):
            return knowledge
        knowledge = KnownTensor(by_definition.element_type, knowledge.shape, knowledge.elements)
    return knowledge.with_elements_in_range() if isinstance(knowledge, KnownTensor) else knowledge


def _with_names(made: ValueType, declared: ValueType | None) -> ValueType:
    """Return the type with the dimension names that the model declares for an output."""
    inferred_shape, declared_shape = _shape_of(made), _shape_of(declared)
    if (
        not isinstance(made, TensorType)
        or inferred_shape is None
        or declared_shape is None
        or len(inferred_shape) != len(declared_shape)
    ):
        return made
    pairs = zip(inferred_shape, declared_shape, strict=True)
    return TensorType(made.element_type, tuple(_named(*pair) for pair in pairs))


def _named(inferred: Dimension, declared: Dimension) -> Dimension:
    return declared if isinstance(declared, str) and not isinstance(inferred, int) else inferred
