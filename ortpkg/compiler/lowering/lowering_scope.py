"""State of lowering a partition: its tensors, and the operations made so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.usual_sizes import agree_at_usual_sizes
from ortpkg.compiler.machine_code.program import IndexReport
from ortpkg.compiler.tensor_ir.elements import (
    Call,
    Convert,
    Coordinate,
    Element,
    Function,
    Number,
    Read,
    SizeValue,
    Tensor,
    along,
    scalar_of,
)
from ortpkg.compiler.tensor_ir.operations import Alias, Combiner, Map, Operation, Reduce
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from ortpkg.foundations.errors import quoted
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.shapes.expression_bounds import is_one_with
from ortpkg.graph.shapes.expression_text import size_of_text
from ortpkg.graph.shapes.expressions import Size
from ortpkg.graph.shapes.knowledge import Knowledge, KnownTensor
from ortpkg.graph.types import ElementType, TensorType, element_type_of, numpy_dtype

Array = npt.NDArray[Any]

SCALARS: Mapping[ElementType, Scalar] = {
    ElementType.FLOAT: Scalar.F32,
    ElementType.FLOAT16: Scalar.F16,
    ElementType.DOUBLE: Scalar.F64,
    ElementType.BFLOAT16: Scalar.BF16,
    ElementType.INT64: Scalar.I64,
    ElementType.INT32: Scalar.I32,
    ElementType.INT16: Scalar.I16,
    ElementType.INT8: Scalar.I8,
    ElementType.UINT64: Scalar.U64,
    ElementType.UINT32: Scalar.U32,
    ElementType.UINT16: Scalar.U16,
    ElementType.UINT8: Scalar.U8,
    ElementType.BOOL: Scalar.BOOL,
}
_DTYPES = {scalar: numpy_dtype(kind) for kind, scalar in SCALARS.items()}
#: Largest tensor of known elements that is written element by element.
_MOST_WRITTEN_ELEMENTS = 64


class NotLoweredError(Exception):
    """A node that the compiler leaves to other providers; the message says why."""


class LoweringScope:
    """The values of a graph as tensors, and the operations that compute them.

    Attributes:
        graph: the graph whose nodes are lowered.
        operations: operations made so far, in order.
    """

    def __init__(self, graph: Graph, knowledge: Mapping[str, Knowledge]) -> None:
        self.graph = graph
        self.operations: list[Operation] = []
        self._knowledge = knowledge
        self._tensors: dict[str, Tensor] = {}
        self._constants: dict[Tensor, Array] = {}
        self._origins: dict[Tensor, tuple[str, ...]] = {}
        self._equal_sizes: dict[tuple[Size, Size], None] = {}
        self._margins: dict[Size, None] = {}
        self._reports: dict[Tensor, IndexReport] = {}
        self._node_name = ""

    # --- what is known ----------------------------------------------------------------------------

    def constant(self, name: str) -> Array | None:
        """Return the value of a constant, else None."""
        initializer = self.graph.constant(name) if name else None
        if initializer is None or initializer.element_type not in SCALARS:
            return None
        return initializer.numpy()

    def elements(self, name: str) -> tuple[Size, ...] | None:
        """Return the elements of a small integer tensor if they are known, else None."""
        constant = self.constant(name)
        if constant is not None:
            return tuple(map(int, constant.reshape(-1))) if constant.dtype.kind in "iub" else None
        knowledge = self._knowledge.get(name)
        if isinstance(knowledge, KnownTensor) and knowledge.elements is not None:
            return knowledge.elements.sizes
        return None

    def sizes(self, name: str, what: str) -> tuple[Size, ...]:
        """Return the known elements of a small tensor, which may be formulas.

        Args:
            name: name of the value.
            what: description of the elements, for the message.

        Raises:
            NotLoweredError: if they are not known.
        """
        elements = self.elements(name)
        if elements is None:
            raise NotLoweredError(f"its {what} are known only when it runs")
        return elements

    def numbers(self, name: str, what: str) -> tuple[int, ...]:
        """Return the known elements of a small tensor as numbers; arguments as for :meth:`sizes`.

        Raises:
            NotLoweredError: if they are not known, or are formulas.
        """
        elements = self.sizes(name, what)
        numbers = tuple(size for size in elements if isinstance(size, int))
        if len(numbers) != len(elements):
            raise NotLoweredError(f"its {what} depend on sizes that are known only when it runs")
        return numbers

    def shape(self, name: str) -> tuple[Size, ...]:
        """Return the sizes of a value; NotLoweredError if they are not known."""
        knowledge = self._knowledge.get(name)
        if isinstance(knowledge, KnownTensor) and knowledge.shape is not None:
            return knowledge.shape
        declared = self.graph.type_of(name)
        constant = self.graph.constant(name)
        if constant is not None:
            return tuple(constant.shape)
        if not isinstance(declared, TensorType) or declared.shape is None:
            raise NotLoweredError(f"the shape of {quoted(name)} is unknown")
        if None in declared.shape:
            raise NotLoweredError(f"a size of {quoted(name)} is known only when it runs")
        return tuple(
            size_of_text(size) if isinstance(size, str) else size
            for size in declared.shape
            if size is not None
        )

    def scalar(self, name: str) -> Scalar:
        """Return the scalar type of a value; NotLoweredError if no kernel computes with it."""
        constant = self.graph.constant(name)
        knowledge, declared = self._knowledge.get(name), self.graph.type_of(name)
        if constant is not None:
            element_type = constant.element_type
        elif isinstance(knowledge, KnownTensor) and knowledge.element_type in SCALARS:
            element_type = knowledge.element_type
        elif isinstance(declared, TensorType):
            element_type = declared.element_type
        else:
            raise NotLoweredError(f"the type of {quoted(name)} is unknown")
        if element_type not in SCALARS:
            raise NotLoweredError(f"nothing is compiled for {element_type.name.lower()}")
        return SCALARS[element_type]

    # --- tensors ----------------------------------------------------------------------------------

    def tensor(self, name: str) -> Tensor:
        """Return the tensor of a value; constants and known elements are written on first use."""
        if name not in self._tensors:
            constant = self.constant(name)
            if constant is not None:
                self._tensors[name] = self.constant_tensor(name, constant)
            else:
                made = Tensor(name, self.scalar(name), self.shape(name))
                self._tensors[name] = made
        return self._tensors[name]

    def constant_tensor(self, name: str, value: Array) -> Tensor:
        """Add a tensor of constant elements."""
        scalar = SCALARS[element_type_of(value.dtype)]
        made = Tensor(name, scalar, tuple(map(int, value.shape)))
        self._constants[made] = np.ascontiguousarray(value)
        return made

    def constant_value(self, tensor: Tensor) -> Array | None:
        """Return the elements of a constant tensor, else None."""
        return self._constants.get(tensor)

    def temporary(self, scalar: Scalar, shape: Sequence[Size], hint: str = "") -> Tensor:
        """Return a new tensor for use between the operations of one node."""
        return Tensor(f"{self._node_name}.{hint}" if hint else self._node_name, scalar,
                      tuple(shape))  # fmt: skip

    def broadcast(self, name: str, shape: Sequence[Size]) -> Element:
        """Return the element of a value, broadcast to ``shape``.

        A constant with one element becomes its number, a known size its formula.

        Raises:
            NotLoweredError: as in :meth:`broadcast_tensor`.
        """
        constant = self.constant(name)
        if constant is not None and constant.size == 1:
            return number(constant.reshape(-1)[0].item(), self.scalar(name))
        elements = self.elements(name)
        if elements is not None and len(elements) == 1:
            return size_element(elements[0], self.scalar(name))
        return self.broadcast_tensor(self.tensor(name), shape)

    def broadcast_tensor(self, tensor: Tensor, shape: Sequence[Size]) -> Read:
        """Return the element of a tensor, broadcast to ``shape``; dimensions of 1 are repeated.

        Source: ONNX, "Multidirectional Broadcasting".

        Raises:
            NotLoweredError: if only a run shows whether a size is 1 or that of the shape.
        """
        first = len(shape) - len(tensor.shape)
        if first < 0:
            raise NotLoweredError("an input has more dimensions than its output")
        return Read(
            tensor,
            tuple(
                Coordinate() if self.is_repeated(size, shape[first + dimension])
                else along(first + dimension)
                for dimension, size in enumerate(tensor.shape)
            ),
        )  # fmt: skip

    def is_repeated(self, size: Size, wide: Size) -> bool:
        """Return True if a dimension of this size is repeated along one of the size ``wide``.

        Formulas that are equal for sizes of usual inputs are taken as equal; a guard checks it.

        Raises:
            NotLoweredError: if only a run shows it.
        """
        if size == 1:
            return True
        if not is_one_with(wide, size) and not agree_at_usual_sizes(size, wide):
            raise NotLoweredError("whether its inputs broadcast is known only when it runs")
        self.require_equal(size, wide)
        return False

    def require_equal(self, left: Size, right: Size) -> None:
        """Make runs fail in which two sizes differ.

        Raises:
            NotLoweredError: if they always differ.
        """
        if left == right:
            return
        if isinstance(left - right, int):
            raise NotLoweredError(f"sizes {left} and {right} do not fit one another")
        self._equal_sizes[left, right] = None

    def require_not_negative(self, margin: Size) -> None:
        """Make runs fail in which a number is negative.

        Raises:
            NotLoweredError: if it always is.
        """
        if not isinstance(margin, int):
            self._margins[margin] = None
        elif margin < 0:
            raise NotLoweredError("its sizes do not fit one another")

    # --- operations -------------------------------------------------------------------------------

    def emit(self, operation: Operation) -> None:
        """Add an operation, made for the current node."""
        self.operations.append(operation)
        self._origins[operation.output] = (self._node_name,)

    def map(self, output: Tensor, value: Element) -> None:
        """Add a map that computes each element of ``output`` by an expression over its axes."""
        axes = output.shape
        coordinates = tuple(along(axis) for axis in range(len(axes)))
        self.emit(Map(output=output, axes=axes, value=value, coordinates=coordinates))

    def report_wrong_indices(self, index: Element, axes: Sequence[Size], size: Size) -> None:
        """Make runs fail in which an index, over these axes, is out of range for an axis.

        Indices from -size on count from the end.
        """
        wide = index if scalar_of(index) is Scalar.I64 else Convert(index, Scalar.I64)
        is_wrong = Call(
            Function.OR,
            (
                Call(Function.LT, (wide, size_element(-1 * size, Scalar.I64))),
                Call(Function.GE, (wide, size_element(size, Scalar.I64))),
            ),
        )
        self.report(is_wrong, axes, size)

    def report(self, is_wrong: Element, axes: Sequence[Size], size: Size) -> None:
        """Make runs fail in which ``is_wrong`` is true at any position of ``axes``.

        ``size`` is the size of the axis for which the index is out of range, for the message.
        """
        counted = Call(Function.SELECT, (is_wrong, number(1, Scalar.I64), number(0, Scalar.I64)))
        output = self.temporary(Scalar.I64, (), "wrong indices")
        self._reports[output] = IndexReport(node=self._node_name, size=size)
        self.emit(
            Reduce(
                output=output,
                axes=(),
                reduced=tuple(axes),
                combiner=Combiner.SUM,
                value=counted,
            )
        )

    def alias(self, output: Tensor, source: Tensor) -> None:
        """Make ``output`` the elements of ``source`` under another shape."""
        self.emit(Alias(output=output, source=source))

    def lower(self, node: Node, lower: Callable[[LoweringScope, Node], None] | None) -> None:
        """Lower one node, by a function unless its elements are known sizes.

        Raises:
            NotLoweredError: if the node cannot be lowered; then no operation is added.
        """
        self._node_name = node.name
        count = len(self.operations)
        reports = dict(self._reports)
        try:
            if self._write_known_elements(node):
                return
            if lower is None:
                raise NotLoweredError("its operator is not compiled")
            lower(self, node)
        except Exception:
            del self.operations[count:]
            self._reports = reports
            raise

    def _write_known_elements(self, node: Node) -> bool:
        """Write the elements of a node's only output and return True, if all are known sizes."""
        if len(node.outputs) != 1:
            return False
        name = node.outputs[0]
        elements = self.elements(name)
        if elements is None or len(elements) > _MOST_WRITTEN_ELEMENTS:
            return False
        for input_name in filter(
            None, node.inputs
        ):  # unsupported inputs are refused even if unused
            self.scalar(input_name), self.shape(input_name)
        output = self.tensor(name)
        shape = tuple(size for size in output.shape if isinstance(size, int))
        if len(shape) != len(output.shape) or prod(shape) != len(elements):
            return False
        if all(isinstance(size, int) for size in elements):
            value = np.array(elements, _DTYPES[output.scalar]).reshape(shape)
            self._constants[output] = value
            return True
        flat = self.temporary(output.scalar, (len(elements),), "elements")
        for index, size in enumerate(elements):
            element = size_element(size, output.scalar)
            self.emit(
                Map(output=flat, axes=(), value=element, coordinates=(Coordinate(offset=index),))
            )
        self.alias(output, flat)
        return True

    def program(self, name: str) -> TensorProgram:
        """Return the graph's program; outputs that no operation computes are copied."""
        inputs = tuple(self.tensor(input_name) for input_name in self.graph.inputs)
        outputs: list[Tensor] = []
        for output_name in self.graph.outputs:
            made = self.tensor(output_name)
            if made in inputs or made in self._constants or made in outputs:
                copy = Tensor(output_name, made.scalar, made.shape)
                self._node_name = output_name
                self.map(copy, identity_read(made))
                made = copy
            outputs.append(made)
        return TensorProgram(
            name=name,
            inputs=inputs,
            outputs=tuple(outputs),
            constants=self._constants,
            operations=tuple(self.operations),
            origins=self._origins,
            equal_sizes=tuple(self._equal_sizes),
            reports=self._reports,
            margins=tuple(self._margins),
        )


def identity_read(tensor: Tensor) -> Read:
    """Return a read of the tensor's element at the axes themselves."""
    return Read(tensor, tuple(along(axis) for axis in range(len(tensor.shape))))


def attribute(node: Node, name: str, default: Any) -> Any:
    """Return an attribute's value, bytes decoded, or the default."""
    node_attribute = node.attributes.get(name)
    if node_attribute is None:
        return default
    return (
        node_attribute.value.decode()
        if isinstance(node_attribute.value, bytes)
        else node_attribute.value
    )


def counted_axis(axis: int, rank: int) -> int:
    """Return a possibly negative axis counted from the front; NotLoweredError if out of range."""
    if not -rank <= axis < rank:
        raise NotLoweredError(f"it has no axis {axis} among {rank}")
    return axis + rank if axis < 0 else axis


def size_element(size: Size, scalar: Scalar) -> Element:
    """Return a size, or a formula of sizes, as an element of an integer type."""
    if isinstance(size, int):
        return number(size, scalar)
    return SizeValue(size) if scalar is Scalar.I64 else Convert(SizeValue(size), scalar)


def number(value: float, scalar: Scalar) -> Number:
    """Return a constant number of a scalar type."""
    return Number(value if scalar.is_float else int(value), scalar)
