"""What schedules know of a CPU: registers, caches, instructions."""

from __future__ import annotations

from dataclasses import dataclass

from ortpkg.codegen.loop_ir.loop_types import Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineModel:
    """The target of a compilation, as far as tiling goes by it.

    Attributes:
        vector_nbytes: of one vector register.
        register_count: how many vector registers there are.
        l1_nbytes, l2_nbytes: data caches that a core has for itself, those of the smallest CPU that
            the target stands for.
        has_fma: whether a product and a sum are one instruction.
        features: what the CPU has beyond that, in LLVM's words.
        multiplies_bfloat: whether products of floats may be computed of numbers rounded to bf16,
            by an instruction that the CPU has.
        sums_directly: whether convolutions add up their windows alone, and never by transforms.
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
        """How many numbers of a kind one vector has."""
        return max(1, self.vector_nbytes // scalar.nbytes)
