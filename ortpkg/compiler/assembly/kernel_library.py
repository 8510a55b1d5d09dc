"""The kernels of a program as one block of code; kernels of the same text are compiled once."""

from __future__ import annotations

from collections.abc import Mapping

from ortpkg.compiler.assembly.compilation_queue import Code
from ortpkg.compiler.assembly.compilation_target import CompilationTarget
from ortpkg.compiler.assembly.kernel_compiler import KernelCompiler
from ortpkg.compiler.emission.elf_object import LinkedCode
from ortpkg.compiler.emission.executor import executor_module
from ortpkg.compiler.emission.llvm_kernel import kernel_function
from ortpkg.compiler.loop_ir.kernel import Kernel
from ortpkg.compiler.loop_ir.kernel_text import kernel_text
from ortpkg.compiler.loop_ir.kernel_verifier import verify_kernel

#: Code for AArch64 addresses its data relative to pages, so it must start at one.
_ALIGNMENTS = {"x86_64": 64, "aarch64": 4096}
_SYMBOL = "kernel"


class KernelLibrary:
    """Collects kernels and links them into one block of code."""

    def __init__(self, target: CompilationTarget, compiler: KernelCompiler | None = None) -> None:
        """Create an empty library; ``compiler`` may be None if only texts are needed."""
        self._target = target
        self._compiler = compiler
        self._names_by_text: dict[str, str] = {}
        self._names: dict[Kernel, str] = {}
        self._kernels: dict[str, Kernel] = {}
        self._codes: dict[str, Code] = {}

    def add(self, kernel: Kernel) -> str:
        """Add a kernel; return its function's name, which kernels of the same text share."""
        if kernel not in self._names:
            text = kernel_text(kernel, name=_SYMBOL)
            if text not in self._names_by_text:
                self._add_new(kernel, text)
            self._names[kernel] = self._names_by_text[text]
        return self._names[kernel]

    def texts(self) -> Mapping[str, str]:
        """Return each kernel's text in the loop IR, by the name of its function."""
        return {name: kernel_text(kernel, name=name) for name, kernel in self._kernels.items()}

    def llvm_text(self, name: str) -> str:
        """Return the LLVM IR of a kernel, by the name of its function."""
        return kernel_function(self._kernels[name], name, self._target.emission_options())

    def assembly_text(self, name: str) -> str:
        """Return the CPU instructions of a kernel; CompileError if LLVM fails."""
        return self._target.compiler().assembly(self.llvm_text(name)).expandtabs(8)

    def link(self) -> LinkedCode:
        """Return all kernels and the executor as one block of code.

        Raises:
            CompileError: if LLVM fails.
            LimitExceededError: if a load limit is exceeded.
        """
        assert self._compiler is not None
        executor = executor_module(self._target.cpu)
        self._codes[""] = self._compiler.start(executor, lambda: executor)
        self._compiler.finish()
        data = bytearray()
        functions: dict[str, int] = {}
        alignment = _ALIGNMENTS[self._target.cpu.family]
        for name, made in self._codes.items():
            code = made.result()
            data += bytes(-len(data) % alignment)
            for symbol, offset in code.functions.items():
                functions[name or symbol] = len(data) + offset
            data += code.data
        return LinkedCode(data=bytes(data), functions=functions)

    def _add_new(self, kernel: Kernel, text: str) -> None:
        name = f"{_SYMBOL}_{len(self._kernels)}"
        self._names_by_text[text] = name
        self._kernels[name] = kernel
        if self._compiler is not None:
            self._codes[name] = self._compiler.start(text, lambda: self._module(kernel))

    def _module(self, kernel: Kernel) -> str:
        verify_kernel(kernel)
        return kernel_function(kernel, _SYMBOL, self._target.emission_options())
