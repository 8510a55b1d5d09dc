"""For what CPU kernels are compiled, and how."""

from __future__ import annotations

from dataclasses import dataclass

from ortpkg.codegen.emission.executor import calling_convention
from ortpkg.codegen.emission.llvm_kernel import EmissionOptions
from ortpkg.codegen.emission.object_compiler import ObjectCompiler
from ortpkg.machine_code.cpu_targets import CpuTarget


@dataclass(frozen=True, slots=True)
class CompilationTarget:
    """For what kernels are compiled.

    Attributes:
        cpu: the family of CPUs.
        extras: features beyond it that code may use (:attr:`CpuTarget.extras`).
        is_checked: whether each access is held against its buffer's bounds.
        multiplies_bfloat: whether products of floats round what they multiply to bf16; the extras
            have the CPU's instruction for that.
        sums_directly: whether convolutions are to do without Winograd's transforms.
    """

    cpu: CpuTarget
    extras: tuple[str, ...] = ()
    is_checked: bool = False
    multiplies_bfloat: bool = False
    sums_directly: bool = False

    @property
    def features(self) -> frozenset[str]:
        """All that the CPU has and the code may use, in the system's words and in LLVM's."""
        names = self.cpu.features
        words = [*names, *(self.cpu.extras[each] for each in names if each in self.cpu.extras)]
        words += self.cpu.llvm_features_with(self.extras)
        return frozenset(each.removeprefix("+") for each in words)

    def compiler(self) -> ObjectCompiler:
        """LLVM for that."""
        return ObjectCompiler(
            triple=self.cpu.llvm_triple,
            cpu=self.cpu.llvm_cpu,
            features=self.cpu.llvm_features_with(self.extras),
        )

    def emission_options(self) -> EmissionOptions:
        """How functions are emitted."""
        nbits = 8 * self.cpu.vector_nbytes
        return EmissionOptions(
            calling_convention=calling_convention(self.cpu),
            attributes=f'"prefer-vector-width"="{nbits}" "min-legal-vector-width"="{nbits}"',
            features=self.features,
            converts_half=self.cpu.family != "x86_64" or "f16c" in self.cpu.features,
            is_checked=self.is_checked,
        )
