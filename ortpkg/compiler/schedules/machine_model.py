"""Model of a CPU for schedules: registers, caches, instructions."""

from __future__ import annotations

from dataclasses import dataclass

from ortpkg.compiler.loop_ir.loop_types import Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineModel:
    """The target of a compilation, as far as tiling depends on it.

    Attributes:
        vector_nbytes: bytes of one vector register.
        register_count: number of vector registers.
        l1_nbytes, l2_nbytes: data caches of a single core, on the smallest CPU that the target
            covers.
        has_fma: True if a product and a sum are one instruction.
        features: LLVM's names of the CPU's further features.
        multiplies_bfloat: True if products of floats may round their operands to bf16, with an
            instruction that the CPU has.
        sums_directly: True if convolutions must sum windows directly, without transforms.
    """

    vector_nbytes: int
    register_count: int
    l1_nbytes: int = 32 << 10
    l2_nbytes: int = 512 << 10
    has_fma: bool = True
    features: frozenset[str] = frozenset()
    multiplies_bfloat: bool = False
    sums_directly: bool = False

    def lanes(self, scalar: Scalar) -> int:
        """Return the number of elements of a scalar type in one vector."""
        return max(1, self.vector_nbytes // scalar.nbytes)
