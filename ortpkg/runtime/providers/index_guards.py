"""Checks of indices around a partition, for libraries that do not check them.

ONNX defines an index of Gather beyond its axis as an error. A library may return zeros instead.
Constant indices, and those that enter a partition, are checked before it runs. Indices that it
computes become further outputs (``native_model`` adds them) and are checked after the run; so are
the sizes of the indexed data, unless an input has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ortpkg.foundations.errors import RunError, quoted
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import Shape, TensorType
from ortpkg.runtime.providers.small_integers import INTEGERS, KEEPS_ELEMENTS, element_type_of

#: Input slots of the operators whose indices are checked.
_DATA, _INDICES = 0, 1
_GATHERS = frozenset({"Gather", "GatherElements"})
_ONE_AXIS = frozenset({"ArgMax", "ArgMin", "TopK"})
#: Operators that need an element: of an empty axis, a library returns an arbitrary number.
_TAKES_ELEMENT = _ONE_AXIS | {"ReduceMax", "ReduceMean", "ReduceMin"}


class RefusedRunError(RunError):
    """Refusal of a run by a library that cannot compute it rightly; another engine may."""


class IndexGuard(NamedTuple):
    """Check of the indices of one node.

    Attributes:
        node: node that takes the indices.
        indices: value that holds them; "" for constants.
        limits: lowest and highest of constant indices.
        axis: axis of the data that they index.
        size: size of that axis; None if it differs from run to run.
        data: value that has that axis, or one of the same size; "" if ``size`` is known.
    """

    node: Node
    indices: str
    limits: tuple[int, int]
    axis: int
    size: int | None
    data: str


class PartitionGuards:
    """Checks of one partition.

    Attributes:
        indices: values whose elements are to leave the partition as further outputs.
        shapes: values whose shapes are to leave it.
    """

    def __init__(self, body: Graph) -> None:
        guards = tuple(_guards(body))
        self._inputs, self._outputs = body.inputs, body.outputs
        inputs = frozenset(body.inputs)
        self._before = [guard for guard in guards if inputs.issuperset(_needed(guard))]
        self._after = [guard for guard in guards if not inputs.issuperset(_needed(guard))]
        visible = inputs.union(body.outputs)
        self.indices = tuple(
            dict.fromkeys(
                guard.indices for guard in self._after if guard.indices not in {"", *visible}
            )
        )
        self.shapes = tuple(
            dict.fromkeys(guard.data for guard in self._after if guard.data not in {"", *visible})
        )

    @property
    def has_checks(self) -> bool:
        """True if any index of the partition has to be checked."""
        return bool(self._before or self._after)

    @property
    def read_values(self) -> frozenset[str]:
        """Names of the values whose elements the checks read."""
        return frozenset(guard.indices for guard in (*self._before, *self._after) if guard.indices)

    def verify_inputs(self, inputs: Sequence[Any]) -> None:
        """Raise RunError for an index out of range that shows before the run."""
        if self._before:
            arrays = dict(zip(self._inputs, inputs, strict=True))
            shapes = {name: array.shape for name, array in arrays.items()}
            for guard in self._before:
                _verify(guard, arrays, shapes)

    def verify_outputs(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Sequence[Any]:
        """Return the outputs without the further ones; raise RunError for an index out of range."""
        if not self._after:
            return outputs
        arrays = dict(zip((*self._inputs, *self._outputs), (*inputs, *outputs), strict=False))
        shapes = {name: array.shape for name, array in arrays.items()}
        further = outputs[len(self._outputs) :]
        arrays |= zip(self.indices, further, strict=False)
        sizes = further[len(self.indices) :]
        shapes |= {
            name: tuple(size.tolist()) for name, size in zip(self.shapes, sizes, strict=True)
        }
        for guard in self._after:
            _verify(guard, arrays, shapes)
        return outputs[: len(self._outputs)]


def is_in_range(graph: Graph, node: Node) -> bool:
    """Return True if constants alone show that no index of ``node`` is out of range."""
    shape, limits = _shape(graph, node.inputs[_DATA]), _limits(graph, node.inputs[_INDICES])
    axis = int(node.attribute("axis", 0))
    if limits is None or shape is None or not -len(shape) <= axis < len(shape):
        return False
    size = shape[axis]
    return isinstance(size, int) and -size <= limits[0] and limits[1] < size


def _guards(body: Graph) -> Iterator[IndexGuard]:
    for node in body.nodes:
        if node.domain:
            continue
        if node.op_type in _GATHERS and not is_in_range(body, node):
            indices = _origin(body, node.inputs[_INDICES])
            limits = _limits(body, indices)
            axis = int(node.attribute("axis", 0))
            yield from _guard(body, node, axis, "" if limits else indices, limits or (0, 0))
        elif node.op_type in _TAKES_ELEMENT:
            for axis in _taken_axes(body, node):
                yield from _guard(body, node, axis, "", (0, 0))


def _guard(
    body: Graph, node: Node, axis: int, indices: str, limits: tuple[int, int]
) -> Iterator[IndexGuard]:
    """Return the check of one axis; none if its size is enough in every run."""
    data = node.inputs[_DATA]
    shape = _shape(body, data)
    size = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
    guard = IndexGuard(node, indices, limits, axis, None, data)
    if isinstance(size, int):
        if indices or not -size <= limits[0] <= limits[1] < size:
            yield guard._replace(size=size, data="")
        return
    for name in body.inputs if size else ():
        # An input with the same symbol tells the size before the run.
        for other_axis, other in enumerate(_shape(body, name) or ()):
            if other == size:
                yield guard._replace(data=name, axis=other_axis)
                return
    yield guard


def _taken_axes(body: Graph, node: Node) -> Iterator[int]:
    """Return the axes of which a node takes one element, or some, of each row."""
    default = -1 if node.op_type == "TopK" else 0
    if node.op_type in _ONE_AXIS:
        yield int(node.attribute("axis", default))
        return
    axes = node.attribute("axes")
    if axes is None and len(node.inputs) > 1 and node.inputs[1]:
        constant = body.constant(node.inputs[1])
        axes = None if constant is None else constant.numpy().ravel().tolist()
    shape = _shape(body, node.inputs[_DATA])
    yield from axes or range(len(shape or ()))


def _needed(guard: IndexGuard) -> Iterator[str]:
    """Return the values that a guard looks at."""
    return filter(None, (guard.indices, guard.data))


def _verify(
    guard: IndexGuard, arrays: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    size = guard.size if guard.size is not None else shapes[guard.data][guard.axis]
    lowest, highest = guard.limits
    if guard.indices:
        indices = arrays[guard.indices]
        if not indices.size:
            return
        lowest, highest = int(indices.min()), int(indices.max())
    if lowest < -size or highest >= size:
        _refuse(guard.node, lowest if lowest < -size else highest, size)


def _limits(body: Graph, indices: str) -> tuple[int, int] | None:
    """Return the lowest and highest of constant indices; None if not constant, or empty."""
    constant = body.constant(indices)
    numbers = None if constant is None else constant.numpy()
    return None if numbers is None or not numbers.size else (int(numbers.min()), int(numbers.max()))


def _shape(body: Graph, value: str) -> Shape | None:
    value_type = body.type_of(value)
    return value_type.shape if isinstance(value_type, TensorType) else None


def _origin(body: Graph, value: str) -> str:
    """Return the earliest value with the same elements as ``value``."""
    maker = body.producer_of(value)
    while maker is not None and maker.op_type in KEEPS_ELEMENTS and not maker.domain:
        if element_type_of(body, maker.inputs[0]) not in INTEGERS:
            return value
        value = maker.inputs[0]
        maker = body.producer_of(value)
    return value


def _refuse(node: Node, index: int, size: int) -> None:
    where = f"node {quoted(node.name)} ({node.op_type}) failed"
    if node.op_type in _TAKES_ELEMENT:
        raise RefusedRunError(f"{where}: an axis has no elements", node_name=node.name)
    raise RefusedRunError(
        f"{where}: index {index} is out of range for an axis of size {size}", node_name=node.name
    )
