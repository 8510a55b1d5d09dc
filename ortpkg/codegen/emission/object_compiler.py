"""LLVM, through llvmlite: modules of LLVM IR to linked code for any CPU.

This module alone imports llvmlite. Of LLVM's passes over its IR three run: loops test at their
end, blocks are joined, constants are folded across them. What the others do is done where kernels
are built, which compute nothing twice, or when instructions are chosen, which moves what does not
change out of loops; they took two thirds of the time of compiling, and made no kernel faster.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from packaging.version import Version

from ortpkg.codegen.emission.elf_object import LinkedCode, link_object
from ortpkg.ep_names import LLVM_EP
from ortpkg.errors import CompileError, missing_library_text, quoted

_SPEED_LEVEL = 2
#: As the extra ``llvm`` has it.
_LEAST_VERSION = Version("0.50")
#: Goes up when the same module becomes other code: by other passes, or another way to link.
_VERSION = 1


@cache
def _llvm() -> Any:
    """llvmlite's binding, all targets made ready.

    Raises CompileError where llvmlite is not installed, cannot be loaded, or is too old.
    """
    try:
        # 45 ms, and of use only where something is compiled
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
    """Errors of LLVM as CompileErrors, which name a version of llvmlite that nobody tested."""
    try:
        yield
    except (RuntimeError, AttributeError, TypeError) as error:
        import llvmlite  # it is loaded by now

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
    """Compiles for one CPU.

    Attributes:
        cpu_words: the CPU in LLVM's words, as arguments of another compiler for it.
    """

    def __init__(self, *, triple: str, cpu: str, features: Sequence[str] = ()) -> None:
        """Makes LLVM ready for a CPU, in LLVM's words; features as ``+avx512vnni``."""
        self._triple, self._cpu, self._features = triple, cpu, tuple(features)
        self.cpu_words = {"triple": triple, "cpu": cpu, "features": [*features]}

    def key_of(self, module_text: str) -> str:
        """A digest of all that the code of a module depends on, LLVM's version among it."""
        # of use only where kernels are kept; imports nothing else
        import llvmlite

        words = [_VERSION, llvmlite.__version__, _SPEED_LEVEL, self.cpu_words, module_text]
        return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()

    def link(self, module_text: str) -> LinkedCode:
        """A module's functions as one block of code.

        Raises CompileError where LLVM refuses the module: a bug in the compiler.
        """
        with _explained():
            module, machine = self._optimized(module_text)
            code = bytes(machine.emit_object(module))
        return link_object(code)

    def assembly(self, module_text: str) -> str:
        """A module's functions as the CPU's instructions, for people."""
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
