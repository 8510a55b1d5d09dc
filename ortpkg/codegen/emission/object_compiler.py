"""LLVM, through llvmlite: modules of LLVM IR to linked code for any CPU.

This module alone imports llvmlite.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from packaging.version import Version

from ortpkg.codegen.emission.elf_object import LinkedCode, link_object
from ortpkg.ep_names import LLVM_EP
from ortpkg.errors import CompileError, quoted

_SPEED_LEVEL = 2
#: As the extra ``llvm`` has it.
_LEAST_VERSION = Version("0.50")


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
            f"llvmlite cannot be loaded: {quoted(error)}; pip install ortpkg[llvm] brings it",
            ep_name=LLVM_EP,
        ) from error
    if Version(llvmlite.__version__) < _LEAST_VERSION:
        raise CompileError(
            f"llvmlite {quoted(llvmlite.__version__)} is too old to compile, {_LEAST_VERSION} is"
            " not; pip install ortpkg[llvm] brings it",
            ep_name=LLVM_EP,
        )
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    # Loop strength reduction takes most of the time for loops that carry many sums, and makes
    # them no faster: their offsets are constants within addresses already.
    llvm.set_option("ortpkg", "-disable-lsr")
    return llvm


class ObjectCompiler:
    """Compiles for one CPU."""

    def __init__(self, *, triple: str, cpu: str, features: Sequence[str] = ()) -> None:
        """Makes LLVM ready for a CPU, in LLVM's words; features as ``+avx512vnni``."""
        self._triple, self._cpu, self._features = triple, cpu, tuple(features)

    def link(self, module_text: str) -> LinkedCode:
        """A module's functions as one block of code.

        Raises CompileError where LLVM refuses the module: a bug in the compiler.
        """
        return link_object(self._object(module_text))

    def assembly(self, module_text: str) -> str:
        """A module's functions as the CPU's instructions, for people."""
        module, machine = self._optimized(module_text)
        return str(machine.emit_assembly(module))

    def _object(self, module_text: str) -> bytes:
        module, machine = self._optimized(module_text)
        return bytes(machine.emit_object(module))

    def _optimized(self, module_text: str) -> tuple[Any, Any]:
        llvm = _llvm()
        try:
            machine = llvm.Target.from_triple(self._triple).create_target_machine(
                cpu=self._cpu,
                features=",".join(self._features),
                opt=_SPEED_LEVEL,
                reloc="pic",
                codemodel="small",
            )
            module = llvm.parse_assembly(f'target triple = "{self._triple}"\n{module_text}')
            module.verify()
        except RuntimeError as error:
            raise CompileError(
                f"LLVM refuses what ortpkg generated: {quoted(error)}", ep_name=LLVM_EP
            ) from error
        options = llvm.create_pipeline_tuning_options(speed_level=_SPEED_LEVEL)
        options.loop_vectorization = options.slp_vectorization = False
        options.loop_unrolling = False
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        return module, machine
