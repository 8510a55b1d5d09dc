"""Assigns memory to the tensors of a program: inputs, outputs, constants, and the arena."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import prod

import numpy as np

from ortpkg.compiler.fusion.alias_views import root_of
from ortpkg.compiler.machine_code.aligned_memory import aligned_bytes
from ortpkg.compiler.machine_code.program import ArenaBuffer, BufferUse, ConstantSpec, Space
from ortpkg.compiler.schedules.scheduled_kernel import Packing, ScheduledKernel
from ortpkg.compiler.tensor_ir.elements import Tensor
from ortpkg.compiler.tensor_ir.operations import Alias
from ortpkg.compiler.tensor_ir.tensor_program import Array, TensorProgram
from ortpkg.graph.byte_source import release_pages
from ortpkg.graph.shapes.expressions import Size


class Storage:
    """Assigns memory to each tensor that steps use.

    Attributes:
        constants: constants that steps read, in the order of their first use.
        parts: the bytes of each constant, by the name of its part.
    """

    def __init__(self, program: TensorProgram) -> None:
        self._program = program
        self._sources = {
            operation.output: operation.source
            for operation in program.operations
            if isinstance(operation, Alias)
        }
        self._spaces: dict[Tensor, tuple[Space, int]] = {}
        for index, tensor in enumerate(program.inputs):
            self._spaces[tensor] = (Space.INPUT, index)
        for index, tensor in enumerate(program.outputs):
            self._spaces[root_of(tensor, self._sources)] = (Space.OUTPUT, index)
        for index, tensor in enumerate(program.reports):
            self._spaces[tensor] = (Space.REPORT, index)
        self.constants: list[ConstantSpec] = []
        self.parts: dict[str, Array] = {}
        self._parts: dict[str, int] = {}
        self._packed: dict[tuple[Tensor, str], int] = {}
        self._arena: dict[Tensor, _Lifetime] = {}

    def uses(self, kernel: ScheduledKernel, step: int) -> tuple[BufferUse, ...]:
        """Return the memory of a kernel's buffers, which the given step uses."""
        return tuple(
            self._use(tensor, kernel.packed.get(tensor), step) for tensor in kernel.buffers
        )

    def arena(self) -> tuple[ArenaBuffer, ...]:
        """Return the buffers for tensors that steps make and read."""
        return tuple(
            ArenaBuffer(nbytes=lifetime.nbytes, first_step=lifetime.first, last_step=lifetime.last)
            for lifetime in self._arena.values()
        )

    def _use(self, tensor: Tensor, packing: Packing | None, step: int) -> BufferUse:
        if packing is not None:
            return BufferUse(space=Space.CONSTANT, index=self._packed_constant(tensor, packing))
        root = root_of(tensor, self._sources)
        space = self._spaces.get(root)
        if space is not None:
            return BufferUse(space=space[0], index=space[1])
        value = self._program.constants.get(root)
        if value is not None:
            return BufferUse(space=Space.CONSTANT, index=self._constant(value))
        lifetime = self._arena.setdefault(root, _Lifetime(len(self._arena), nbytes_of(root), step))
        lifetime.last = step
        return BufferUse(space=Space.ARENA, index=lifetime.index)

    def _packed_constant(self, tensor: Tensor, packing: Packing) -> int:
        source = root_of(packing.source, self._sources)
        key = (source, f"{packing.layout} of {packing.source.shape}")
        if key not in self._packed:
            value = self._program.constants[source]
            sizes = tuple(size for size in packing.source.shape if isinstance(size, int))
            packed = packing.pack(value.reshape(sizes))
            release_pages(value)
            expected = tuple(size for size in tensor.shape if isinstance(size, int))
            assert packed.shape == expected, (packing.layout, packed.shape, expected)
            self._packed[key] = self._constant(packed)
        return self._packed[key]

    def _constant(self, value: Array) -> int:
        contiguous = np.ascontiguousarray(value)
        raw = contiguous.reshape(-1).view(np.uint8) if contiguous.size else np.empty(0, np.uint8)
        name = f"constant:{hashlib.sha256(raw.data).hexdigest()}"
        if name not in self._parts:
            self._parts[name] = len(self.constants)
            self.constants.append(ConstantSpec(part=name, nbytes=raw.nbytes))
            self.parts[name] = aligned_bytes(raw)
        release_pages(raw)
        return self._parts[name]


class _Lifetime:
    def __init__(self, index: int, nbytes: Size, step: int) -> None:
        self.index = index
        self.nbytes = nbytes
        self.first = self.last = step


def nbytes_of(tensor: Tensor) -> Size:
    """Return the bytes that a tensor takes."""
    return element_count(tensor.shape) * tensor.scalar.nbytes


def element_count(shape: Sequence[Size]) -> Size:
    """Return the number of elements of a shape."""
    return prod(shape, start=1)
