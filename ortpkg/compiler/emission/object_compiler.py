"""Compiles modules of LLVM IR to linked code for any CPU, with LLVM through llvmlite.

Only this module imports llvmlite. Three of LLVM's passes over its IR run: loops test at their end,
blocks are joined, constants are folded across them. The others are not needed, since kernels are
built without redundant computations and instruction selection moves invariants out of loops; they
took two thirds of the compile time and made no kernel faster.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from packaging.version import Version

from ortpkg.compiler.emission.elf_object import LinkedCode, link_object
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.foundations.errors import CompileError, missing_library_text, quoted

_SPEED_LEVEL = 2
#: Must equal the minimum in the extra ``llvm``.
_LEAST_VERSION = Version("0.50")
#: Increase it when the same module compiles to other code: with other passes or another linker.
_VERSION = 1


@cache
def _llvm() -> Any:
    """Return llvmlite's binding with all targets initialized.

    Raises:
        CompileError: if llvmlite is not installed, cannot be loaded, or is too old.
    """
    try:
        # takes 45 ms, and only compiling needs it
        import llvmlite
        import llvmlite.binding as llvm
    except Exception as error:  # a damaged installation raises more than ImportError
        raise CompileError(
            missing_library_text("compiling", "llvmlite", error), ep_name=LLVM_EP
        ) from error
    if Version(llvmlite.__version__) < _LEAST_VERSION:
        raise CompileError(
            f"llvmlite {quoted(llvmlite.__version__)} is too old to compile: pip install"
            f" 'llvmlite>={_LEAST_VERSION}'",
            ep_name=LLVM_EP,
        )
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    # Loop strength reduction takes most of the time for loops that carry many sums, and makes
    # them no faster: their offsets are constants within addresses already.
    llvm.set_option("ortpkg", "-disable-lsr")
    return llvm


@contextmanager
def _explained() -> Iterator[None]:
    """Raise LLVM's errors as CompileError, which names an untested version of llvmlite."""
    try:
        yield
    except (RuntimeError, AttributeError, TypeError) as error:
        import llvmlite  # already loaded

        version = Version(llvmlite.__version__)
        what = "LLVM refuses what ortpkg generated"
        hint = ""
        if version.release[:2] != _LEAST_VERSION.release[:2]:
            what = f"llvmlite {quoted(version)} does not compile what ortpkg generated"
            hint = (
                f"; ortpkg was tested with {_LEAST_VERSION}: install llvmlite=={_LEAST_VERSION}.*"
            )
        raise CompileError(f"{what}: {quoted(error)}{hint}", ep_name=LLVM_EP) from error


class ObjectCompiler:
    """Compiles modules for one CPU.

    Attributes:
        cpu_words: the CPU by LLVM's names, as arguments for another compiler of the same CPU.
    """

    def __init__(self, *, triple: str, cpu: str, features: Sequence[str] = ()) -> None:
        """Create a compiler for a CPU, by LLVM's names; features as ``+avx512vnni``."""
        self._triple, self._cpu, self._features = triple, cpu, tuple(features)
        self.cpu_words = {"triple": triple, "cpu": cpu, "features": [*features]}

    def key_of(self, module_text: str) -> str:
        """Return a digest of all that a module's code depends on, LLVM's version included."""
        # imported only if kernels are cached; loads nothing else
        import llvmlite

        words = [_VERSION, llvmlite.__version__, _SPEED_LEVEL, self.cpu_words, module_text]
        return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()

    def link(self, module_text: str) -> LinkedCode:
        """Return a module's functions as one block of code.

        Raises:
            CompileError: if LLVM refuses the module, which is a bug of the compiler.
        """
        with _explained():
            module, machine = self._optimized(module_text)
            code = bytes(machine.emit_object(module))
        return link_object(code)

    def assembly(self, module_text: str) -> str:
        """Return a module's functions as the CPU's instructions, for people."""
        with _explained():
            module, machine = self._optimized(module_text)
            return str(machine.emit_assembly(module))

    def _optimized(self, module_text: str) -> tuple[Any, Any]:
        llvm = _llvm()
        machine = llvm.Target.from_triple(self._triple).create_target_machine(
            cpu=self._cpu,
            features=",".join(self._features),
            opt=_SPEED_LEVEL,
            reloc="pic",
            codemodel="small",
        )
        module = llvm.parse_assembly(f'target triple = "{self._triple}"\n{module_text}')
        module.verify()
        passes = llvm.create_new_function_pass_manager()
        passes.add_loop_rotate_pass()
        passes.add_simplify_cfg_pass()
        passes.add_sccp_pass()
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)
        return module, machine
