"""What a lowering works with: the tensors of a partition, and the operations made so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.lowering.usual_sizes import agree_at_usual_sizes
from ortpkg.codegen.tensor_ir.elements import (
    Call,
    Convert,
    Element,
    Function,
    Number,
    Place,
    Read,
    SizeValue,
    Tensor,
    along,
    scalar_of,
)
from ortpkg.codegen.tensor_ir.operations import Alias, Combiner, Map, Operation, Reduce
from ortpkg.codegen.tensor_ir.tensor_program import TensorProgram
from ortpkg.errors import quoted
from ortpkg.graph.graph import Graph, Node
from ortpkg.graph.types import ElementType, TensorType, element_type_of, numpy_dtype
from ortpkg.machine_code.program import IndexReport
from ortpkg.shapes.expression_bounds import is_one_with
from ortpkg.shapes.expression_text import size_of_text
from ortpkg.shapes.expressions import Size
from ortpkg.shapes.knowledge import Knowledge, KnownTensor

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
#: Larger tensors of known elements are not written one by one.
_MOST_WRITTEN_ELEMENTS = 64


class NotLoweredError(Exception):
    """A node that the compiler leaves to other providers; the message says why."""


class LoweringScope:
    """The values of a graph as tensors, and what is computed of them.

    Attributes:
        graph: whose nodes are lowered.
        operations: made so far, in order.
    """

    def __init__(self, graph: Graph, known: Mapping[str, Knowledge]) -> None:
        self.graph = graph
        self.operations: list[Operation] = []
        self._known = known
        self._tensors: dict[str, Tensor] = {}
        self._constants: dict[Tensor, Array] = {}
        self._origins: dict[Tensor, tuple[str, ...]] = {}
        self._equal_sizes: dict[tuple[Size, Size], None] = {}
        self._margins: dict[Size, None] = {}
        self._reports: dict[Tensor, IndexReport] = {}
        self._node_name = ""

    # --- what is known ----------------------------------------------------------------------------

    def constant(self, name: str) -> Array | None:
        """The value of a constant, else None."""
        found = self.graph.constant(name) if name else None
        if found is None or found.element_type not in SCALARS:
            return None
        return found.numpy()

    def elements(self, name: str) -> tuple[Size, ...] | None:
        """The elements of a small tensor of whole numbers, where they are known, else None."""
        constant = self.constant(name)
        if constant is not None:
            return tuple(map(int, constant.reshape(-1))) if constant.dtype.kind in "iub" else None
        known = self._known.get(name)
        if isinstance(known, KnownTensor) and known.elements is not None:
            return known.elements.sizes
        return None

    def sizes(self, name: str, what: str) -> tuple[Size, ...]:
        """The elements of a small tensor that must be known, perhaps as formulas.

        NotLoweredError where they are not; ``what`` says what they are.
        """
        found = self.elements(name)
        if found is None:
            raise NotLoweredError(f"its {what} are known only when it runs")
        return found

    def numbers(self, name: str, what: str) -> tuple[int, ...]:
        """The elements of a small tensor that must be known numbers.

        NotLoweredError where they are not; ``what`` says what they are.
        """
        found = self.sizes(name, what)
        numbers = tuple(each for each in found if isinstance(each, int))
        if len(numbers) != len(found):
            raise NotLoweredError(f"its {what} depend on sizes that are known only when it runs")
        return numbers

    def shape(self, name: str) -> tuple[Size, ...]:
        """The sizes of a value. NotLoweredError where they are not known."""
        known = self._known.get(name)
        if isinstance(known, KnownTensor) and known.shape is not None:
            return known.shape
        declared = self.graph.type_of(name)
        constant = self.graph.constant(name)
        if constant is not None:
            return tuple(constant.shape)
        if not isinstance(declared, TensorType) or declared.shape is None:
            raise NotLoweredError(f"nobody knows the shape of {quoted(name)}")
        if None in declared.shape:
            raise NotLoweredError(f"a size of {quoted(name)} is known only when it runs")
        return tuple(
            size_of_text(each) if isinstance(each, str) else each
            for each in declared.shape
            if each is not None
        )

    def scalar(self, name: str) -> Scalar:
        """The kind of a value's elements. NotLoweredError for what no kernel computes with."""
        constant = self.graph.constant(name)
        known, declared = self._known.get(name), self.graph.type_of(name)
        if constant is not None:
            element_type = constant.element_type
        elif isinstance(known, KnownTensor) and known.element_type in SCALARS:
            element_type = known.element_type
        elif isinstance(declared, TensorType):
            element_type = declared.element_type
        else:
            raise NotLoweredError(f"nobody knows the type of {quoted(name)}")
        if element_type not in SCALARS:
            raise NotLoweredError(f"nothing is compiled for {element_type.name.lower()}")
        return SCALARS[element_type]

    # --- tensors ----------------------------------------------------------------------------------

    def tensor(self, name: str) -> Tensor:
        """The tensor of a value; what is known of its elements is written where nobody made it."""
        if name not in self._tensors:
            constant = self.constant(name)
            if constant is not None:
                self._tensors[name] = self.constant_tensor(name, constant)
            else:
                made = Tensor(name, self.scalar(name), self.shape(name))
                self._tensors[name] = made
        return self._tensors[name]

    def constant_tensor(self, name: str, value: Array) -> Tensor:
        """A tensor of known elements."""
        scalar = SCALARS[element_type_of(value.dtype)]
        made = Tensor(name, scalar, tuple(map(int, value.shape)))
        self._constants[made] = np.ascontiguousarray(value)
        return made

    def constant_value(self, tensor: Tensor) -> Array | None:
        """What a tensor is known to hold, else None."""
        return self._constants.get(tensor)

    def temporary(self, scalar: Scalar, shape: Sequence[Size], hint: str = "") -> Tensor:
        """A tensor between the operations of one node."""
        return Tensor(f"{self._node_name}.{hint}" if hint else self._node_name, scalar,
                      tuple(shape))  # fmt: skip

    def broadcast(self, name: str, shape: Sequence[Size]) -> Element:
        """The element of a value that broadcasting to ``shape`` takes.

        Of a constant with one element, that number, and of a known size, its formula.
        NotLoweredError as :meth:`broadcast_tensor`.
        """
        constant = self.constant(name)
        if constant is not None and constant.size == 1:
            return number(constant.reshape(-1)[0].item(), self.scalar(name))
        elements = self.elements(name)
        if elements is not None and len(elements) == 1:
            return size_element(elements[0], self.scalar(name))
        return self.broadcast_tensor(self.tensor(name), shape)

    def broadcast_tensor(self, tensor: Tensor, shape: Sequence[Size]) -> Read:
        """The element of a tensor that broadcasting to ``shape`` takes: sizes of 1 stand still.

        NotLoweredError where a size may be 1 or that of the shape, and nobody knows before it runs.
        Source: ONNX, "Multidirectional Broadcasting".
        """
        first = len(shape) - len(tensor.shape)
        if first < 0:
            raise NotLoweredError("an input has more dimensions than its output")
        return Read(
            tensor,
            tuple(
                Place() if self.stands_still(size, shape[first + dimension])
                else along(first + dimension)
                for dimension, size in enumerate(tensor.shape)
            ),
        )  # fmt: skip

    def stands_still(self, size: Size, wide: Size) -> bool:
        """Whether a dimension of that size is repeated along one of the size ``wide``.

        Formulas that are equal for sizes of usual inputs are taken for equal; a guard asks. Raises
        NotLoweredError where it is known only when it runs.
        """
        if size == 1:
            return True
        if not is_one_with(wide, size) and not agree_at_usual_sizes(size, wide):
            raise NotLoweredError("whether its inputs broadcast is known only when it runs")
        self.require_equal(size, wide)
        return False

    def require_equal(self, left: Size, right: Size) -> None:
        """Notes that a run is right only where two sizes are the same number.

        NotLoweredError where they never are.
        """
        if left == right:
            return
        if isinstance(left - right, int):
            raise NotLoweredError(f"sizes {left} and {right} do not fit one another")
        self._equal_sizes[left, right] = None

    def require_not_negative(self, margin: Size) -> None:
        """Notes that a run is right only where a number is not below 0.

        NotLoweredError where it always is.
        """
        if not isinstance(margin, int):
            self._margins[margin] = None
        elif margin < 0:
            raise NotLoweredError("its sizes do not fit one another")

    # --- operations -------------------------------------------------------------------------------

    def emit(self, operation: Operation) -> None:
        """Adds an operation."""
        self.operations.append(operation)
        self._origins[operation.output] = (self._node_name,)

    def map(self, output: Tensor, value: Element) -> None:
        """Makes each element of ``output`` by an expression over its own axes."""
        axes = output.shape
        places = tuple(along(axis) for axis in range(len(axes)))
        self.emit(Map(output=output, axes=axes, value=value, places=places))

    def report_wrong_indices(self, index: Element, axes: Sequence[Size], size: Size) -> None:
        """Has a run fail where an index, over these axes, points beyond an axis of that size.

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

        ``size``: of the axis that the wrong index is out of range for, for the message.
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
        """Makes ``output`` the elements of ``source`` under its own shape."""
        self.emit(Alias(output=output, source=source))

    def lower(self, node: Node, lower: Callable[[LoweringScope, Node], None] | None) -> None:
        """Lowers one node, by a function where its elements are no known sizes.

        NotLoweredError where that cannot be, and no operation is added.
        """
        self._node_name = node.name
        count = len(self.operations)
        reports = dict(self._reports)
        try:
            if self._lower_known(node):
                return
            if lower is None:
                raise NotLoweredError("its operator is not compiled")
            lower(self, node)
        except Exception:
            del self.operations[count:]
            self._reports = reports
            raise

    def _lower_known(self, node: Node) -> bool:
        """Writes the elements of a node's only output where all of them are known sizes."""
        if len(node.outputs) != 1:
            return False
        name = node.outputs[0]
        found = self.elements(name)
        if found is None or len(found) > _MOST_WRITTEN_ELEMENTS:
            return False
        for each in filter(None, node.inputs):  # they are inputs of the partition all the same
            self.scalar(each), self.shape(each)
        output = self.tensor(name)
        shape = tuple(each for each in output.shape if isinstance(each, int))
        if len(shape) != len(output.shape) or prod(shape) != len(found):
            return False
        if all(isinstance(each, int) for each in found):
            value = np.array(found, _DTYPES[output.scalar]).reshape(shape)
            self._constants[output] = value
            return True
        flat = self.temporary(output.scalar, (len(found),), "elements")
        for index, size in enumerate(found):
            element = size_element(size, output.scalar)
            self.emit(Map(output=flat, axes=(), value=element, places=(Place(offset=index),)))
        self.alias(output, flat)
        return True

    def program(self, name: str) -> TensorProgram:
        """The graph's program. Outputs that nothing computes are copied."""
        inputs = tuple(self.tensor(each) for each in self.graph.inputs)
        outputs: list[Tensor] = []
        for each in self.graph.outputs:
            made = self.tensor(each)
            if made in inputs or made in self._constants or made in outputs:
                copy = Tensor(each, made.scalar, made.shape)
                self._node_name = each
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
    """The element at the axes themselves."""
    return Read(tensor, tuple(along(axis) for axis in range(len(tensor.shape))))


def attribute(node: Node, name: str, default: Any) -> Any:
    """An attribute's value, or the default; texts as such."""
    found = node.attributes.get(name)
    if found is None:
        return default
    return found.value.decode() if isinstance(found.value, bytes) else found.value


def counted_axis(axis: int, rank: int) -> int:
    """Return a possibly negative axis counted from the front; NotLoweredError if out of range."""
    if not -rank <= axis < rank:
        raise NotLoweredError(f"it has no axis {axis} among {rank}")
    return axis + rank if axis < 0 else axis


def size_element(size: Size, scalar: Scalar) -> Element:
    """A size, or what is computed of sizes, as an element of a kind of integer."""
    if isinstance(size, int):
        return number(size, scalar)
    return SizeValue(size) if scalar is Scalar.I64 else Convert(SizeValue(size), scalar)


def number(value: float, scalar: Scalar) -> Number:
    """A known number of a kind."""
    return Number(value if scalar.is_float else int(value), scalar)
