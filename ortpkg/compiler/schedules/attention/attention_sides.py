"""Reads of query, key and value of one head of an attention, without packing."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.compiler.loop_ir.kernel import Value
from ortpkg.compiler.loop_ir.kernel_builder import Operand
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.element_values import ElementValues
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.compiler.schedules.linear_reads import linear_index
from ortpkg.compiler.tensor_ir.elements import Convert, Element, Read
from ortpkg.compiler.tensor_ir.operations import Attention


class AttentionSides:
    """Query, key and value of one head, read in place as f32."""

    def __init__(
        self, maker: KernelMaker, values: ElementValues, attention: Attention, lanes: int
    ) -> None:
        self._maker, self._values, self._attention = maker, values, attention
        self.lanes = lanes

    def query(
        self, head: Sequence[Operand], query: Operand, column: int, count: int | None
    ) -> Value:
        """Return neighbours of a query along the width."""
        return self._value(self._attention.query, head, query, column, 1, count)

    def key(
        self, head: Sequence[Operand], key: Operand, column: Operand, count: int | None
    ) -> Value:
        """Return neighbours of a key along the width."""
        return self._value(self._attention.key, head, key, column, 1, count)

    def keys(
        self, head: Sequence[Operand], first: Operand, column: Operand, count: Operand | None
    ) -> Value:
        """Return one column of neighbouring keys."""
        return self._value(self._attention.key, head, first, column, 0, count)

    def value(self, head: Sequence[Operand], key: Operand, column: int, count: int | None) -> Value:
        """Return neighbours of a value along its width."""
        return self._value(self._attention.value, head, key, column, 1, count)

    def keys_are_neighbours(self) -> bool:
        """Return True if only keys, not columns, are contiguous in memory."""
        element = self._attention.key
        if isinstance(element, Convert):
            element = element.operand
        if not isinstance(element, Read):
            return False
        linear, axis = linear_index(element), len(self._attention.batch)
        return linear.stride(axis) == 1 and linear.stride(axis + 1) != 1

    def _value(
        self,
        element: Element,
        head: Sequence[Operand],
        row: Operand,
        column: Operand,
        axis: int,
        count: Operand | None,
    ) -> Value:
        value = self._values.value_of(
            element,
            [*head, row, column],
            vector_axis=len(head) + axis,
            lanes=self.lanes,
            count=count,
        )
        return self._maker.builder.cast(value, Scalar.F32)


def row_vectors(width: int, lanes: int) -> list[tuple[int, int | None]]:
    """Return the vectors of a row as (first column, number of lanes); None for all lanes."""
    return [
        (column, None if column + lanes <= width else width - column)
        for column in range(0, width, lanes)
    ]
