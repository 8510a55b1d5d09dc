"""Query, key and value of one head of an attention, read where they lie."""

from __future__ import annotations

from collections.abc import Sequence

from ortpkg.codegen.loop_ir.kernel import Value
from ortpkg.codegen.loop_ir.kernel_builder import Operand
from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.schedules.element_values import ElementValues
from ortpkg.codegen.schedules.kernel_maker import KernelMaker
from ortpkg.codegen.schedules.linear_reads import linear_place
from ortpkg.codegen.tensor_ir.elements import Convert, Element, Read
from ortpkg.codegen.tensor_ir.operations import Attention


class AttentionSides:
    """Query, key and value of one head, read where they lie, as f32."""

    def __init__(
        self, maker: KernelMaker, values: ElementValues, attention: Attention, lanes: int
    ) -> None:
        self._maker, self._values, self._attention = maker, values, attention
        self.lanes = lanes

    def query(
        self, head: Sequence[Operand], query: Operand, place: int, count: int | None
    ) -> Value:
        """Neighbours along the width."""
        return self._value(self._attention.query, head, query, place, 1, count)

    def key(
        self, head: Sequence[Operand], key: Operand, place: Operand, count: int | None
    ) -> Value:
        """Neighbours along the width."""
        return self._value(self._attention.key, head, key, place, 1, count)

    def keys(
        self, head: Sequence[Operand], first: Operand, place: Operand, count: Operand | None
    ) -> Value:
        """One place along the width of keys that are neighbours."""
        return self._value(self._attention.key, head, first, place, 0, count)

    def value(self, head: Sequence[Operand], key: Operand, place: int, count: int | None) -> Value:
        """Neighbours along the value width."""
        return self._value(self._attention.value, head, key, place, 1, count)

    def keys_are_neighbours(self) -> bool:
        """Whether keys follow one another in memory, and places along the width do not."""
        element = self._attention.key
        if isinstance(element, Convert):
            element = element.operand
        if not isinstance(element, Read):
            return False
        place, axis = linear_place(element), len(self._attention.batch)
        return place.stride(axis) == 1 and place.stride(axis + 1) != 1

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


def vector_places(width: int, lanes: int) -> list[tuple[int, int | None]]:
    """Where the vectors of a row begin, and how many lanes are there; None: all."""
    return [
        (place, None if place + lanes <= width else width - place)
        for place in range(0, width, lanes)
    ]
