"""Body of a map's kernel: computes the expression at given positions, and stores it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ortpkg.compiler.loop_ir.kernel import Value
from ortpkg.compiler.loop_ir.kernel_builder import KernelBuilder, Operand
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.schedules.element_values import ElementValues
from ortpkg.compiler.schedules.kernel_maker import KernelMaker
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.rows.axis_collapse import CollapsedAxes
from ortpkg.compiler.schedules.rows.vector_loops import for_vectors, has_masks
from ortpkg.compiler.tensor_ir.elements import Element, Read, Tensor, parts_of, scalar_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatMap:
    """A map over joined axes, with one linear index, that of the output."""

    output: Tensor
    flat: CollapsedAxes
    model: MachineModel

    @property
    def value(self) -> Element:
        """Expression of the map."""
        return self.flat.values[0]

    @property
    def vector_axis(self) -> int | None:
        """Axis along which the output's elements are neighbours; None if there is none."""
        (linear,) = self.flat.indices
        axes = [axis for axis, number in linear.terms if number == 1]
        return axes[-1] if axes else None

    @property
    def lanes(self) -> int:
        """Number of lanes: those of f32, or fewer if the widest type is wider.

        Along a short axis, fewer lanes, so that the axis fills them.
        """
        if self.vector_axis is None:
            return 1
        widest = max(scalar.nbytes for scalar in self.scalars)
        lanes = self.model.lanes(Scalar.F32) * max(1, Scalar.F32.nbytes // widest)
        size = self.flat.axes[self.vector_axis]
        while isinstance(size, int) and size * 2 < lanes:
            lanes //= 2
        return max(lanes, 1)

    @property
    def scalars(self) -> set[Scalar]:
        """Scalar types of all parts of the computation."""
        return {self.output.scalar, *(scalar_of(part) for part in parts_of(self.value))}


class MapBody:
    """Emits the statements of one kernel."""

    def __init__(self, maker: KernelMaker, flat_map: FlatMap) -> None:
        self._maker, self._map = maker, flat_map
        # maps that only move elements share kernels: Split makes many of the same size
        is_move = isinstance(flat_map.value, Read)
        self._values = ElementValues(maker, flat_map.model, takes_pieces=is_move)
        self._buffer = maker.written(flat_map.output)
        self._is_masked = has_masks(flat_map.model, flat_map.scalars)

    @property
    def builder(self) -> KernelBuilder:
        """Builder of the kernel."""
        return self._maker.builder

    def compute(
        self,
        value: Element,
        axes: Sequence[Operand],
        lanes: int,
        count: Operand | None = None,
        made: Value | None = None,
    ) -> None:
        """Store the value at a position of the axes."""
        stored = self._values.value_of(
            value, axes, vector_axis=self._map.vector_axis, lanes=lanes, count=count, made=made
        )
        b, (linear,) = self.builder, self._map.flat.indices
        index: Value = self._maker.beginning(linear.offset)
        for axis, number in linear.terms:
            index = b.add(index, b.mul(b.index(axes[axis]), self._maker.size(number)))
        b.store(self._buffer, index, stored, count)

    def along_vector_axis(
        self, axes: Sequence[Operand], start: Operand, stop: Operand, *, unroll: int = 1
    ) -> None:
        """Emit the loop along the vector axis from start up to stop."""
        vector_axis = self._map.vector_axis
        if vector_axis is None:
            self.compute(self._map.value, axes, 1)
            return

        def body(index: Value, lanes: int, count: Operand | None) -> None:
            at = list(axes)
            at[vector_axis] = index
            self.compute(self._map.value, at, lanes, count)

        for_vectors(
            self.builder, start, stop, body, lanes=self._map.lanes, unroll=unroll,
            is_masked=self._is_masked,
        )  # fmt: skip
