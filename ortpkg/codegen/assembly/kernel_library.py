"""The kernels of a program as one code: equal ones once, each compiled once in a process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ortpkg.codegen.emission.elf_object import LinkedCode
from ortpkg.codegen.emission.executor import calling_convention, executor_module
from ortpkg.codegen.emission.llvm_kernel import EmissionOptions, kernel_function
from ortpkg.codegen.emission.object_compiler import ObjectCompiler
from ortpkg.codegen.loop_ir.kernel import Kernel
from ortpkg.codegen.loop_ir.kernel_text import kernel_text
from ortpkg.codegen.loop_ir.kernel_verifier import verify_kernel
from ortpkg.graph.load_control import poll_load
from ortpkg.machine_code.cpu_targets import CpuTarget

#: What is compiled for AArch64 tells its data by pages: it stays right at the start of one alone.
_ALIGNMENTS = {"x86_64": 64, "aarch64": 4096}
_SYMBOL = "kernel"
#: Kernels that one process keeps compiled; each takes some kilobytes.
_MOST_KEPT = 4096


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


class KernelLibrary:
    """Collects kernels, and makes one code of them."""

    def __init__(self, target: CompilationTarget) -> None:
        self._target = target
        self._texts: dict[str, str] = {}
        self._kernels: dict[str, Kernel] = {}

    def add(self, kernel: Kernel) -> str:
        """The name of a kernel's function in the code; kernels of the same text have one."""
        text = kernel_text(kernel, name=_SYMBOL)
        if text not in self._texts:
            verify_kernel(kernel)
            self._texts[text] = f"{_SYMBOL}_{len(self._texts)}"
            self._kernels[text] = kernel
        return self._texts[text]

    def texts(self) -> Mapping[str, str]:
        """Each kernel's text in the loop IR, by the name of its function."""
        return {name: kernel_text(self._kernels[text], name=name)
                for text, name in self._texts.items()}  # fmt: skip

    def llvm_text(self, name: str) -> str:
        """A kernel as LLVM gets it, by the name of its function."""
        kernel = next(self._kernels[text] for text, named in self._texts.items() if named == name)
        return kernel_function(kernel, name, self._target.emission_options())

    def assembly_text(self, name: str) -> str:
        """A kernel as the CPU's instructions. CompileError where LLVM fails."""
        return self._target.compiler().assembly(self.llvm_text(name)).expandtabs(8)

    def link(self) -> LinkedCode:
        """All kernels, and the executor, as one code.

        Raises CompileError where LLVM fails, what a load limit raises where it is passed.
        """
        data = bytearray()
        functions: dict[str, int] = {}
        alignment = _ALIGNMENTS[self._target.cpu.family]
        for name, text in [*((name, text) for text, name in self._texts.items()), ("", "")]:
            poll_load()
            if name:
                code = _compiled(_KernelKey(text, self._kernels[text]), self._target)
            else:
                code = _executor(self._target)
            data += bytes(-len(data) % alignment)
            for symbol, offset in code.functions.items():
                functions[name or symbol] = len(data) + offset
            data += code.data
        return LinkedCode(data=bytes(data), functions=functions)


class _KernelKey:
    """A kernel that is told from others by its text."""

    __slots__ = ("kernel", "text")

    def __init__(self, text: str, kernel: Kernel) -> None:
        self.text = text
        self.kernel = kernel

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _KernelKey) and self.text == other.text


@lru_cache(maxsize=_MOST_KEPT)
def _compiled(key: _KernelKey, target: CompilationTarget) -> LinkedCode:
    module = kernel_function(key.kernel, _SYMBOL, target.emission_options())
    return target.compiler().link(module)


@lru_cache(maxsize=16)
def _executor(target: CompilationTarget) -> LinkedCode:
    return target.compiler().link(executor_module(target.cpu))
