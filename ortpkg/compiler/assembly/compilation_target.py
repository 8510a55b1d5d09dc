"""The CPU and the options that kernels are compiled for."""

from __future__ import annotations

from dataclasses import dataclass

from ortpkg.compiler.emission.executor import calling_convention
from ortpkg.compiler.emission.llvm_kernel import EmissionOptions
from ortpkg.compiler.emission.object_compiler import ObjectCompiler
from ortpkg.compiler.machine_code.cpu_targets import CpuTarget


@dataclass(frozen=True, slots=True)
class CompilationTarget:
    """CPU and options of a compilation.

    Attributes:
        cpu: the family of CPUs.
        extras: further CPU features that the code may use (:attr:`CpuTarget.extras`).
        is_checked: True to check each access against its buffer's bounds.
        multiplies_bfloat: True if products of floats round their operands to bf16; the extras then
            have
            the CPU's instruction for it.
        sums_directly: True if convolutions must not use Winograd's transforms.
    """

    cpu: CpuTarget
    extras: tuple[str, ...] = ()
    is_checked: bool = False
    multiplies_bfloat: bool = False
    sums_directly: bool = False

    @property
    def features(self) -> frozenset[str]:
        """Features that the CPU has and the code may use, by the system's and by LLVM's names."""
        names = self.cpu.features
        words = [*names, *(self.cpu.extras[name] for name in names if name in self.cpu.extras)]
        words += self.cpu.llvm_features_with(self.extras)
        return frozenset(word.removeprefix("+") for word in words)

    def compiler(self) -> ObjectCompiler:
        """Return LLVM's compiler for this target."""
        return ObjectCompiler(
            triple=self.cpu.llvm_triple,
            cpu=self.cpu.llvm_cpu,
            features=self.cpu.llvm_features_with(self.extras),
        )

    def emission_options(self) -> EmissionOptions:
        """Return the options with which functions are emitted."""
        nbits = 8 * self.cpu.vector_nbytes
        return EmissionOptions(
            calling_convention=calling_convention(self.cpu),
            attributes=f'"prefer-vector-width"="{nbits}" "min-legal-vector-width"="{nbits}"',
            features=self.features,
            converts_half=self.cpu.family != "x86_64" or "f16c" in self.cpu.features,
            is_checked=self.is_checked,
        )
