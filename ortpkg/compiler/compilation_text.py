"""Texts of the stages between a partition and its machine code: tensor IR, kernels, LLVM IR.

The stages are run again, by the functions that compile; nothing is linked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ortpkg.compiler.assembly.compilation_target import CompilationTarget
from ortpkg.compiler.assembly.kernel_library import KernelLibrary
from ortpkg.compiler.assembly.program_assembly import machine_model
from ortpkg.compiler.compiler import as_compile_errors
from ortpkg.compiler.machine_code.compilation_stages import KERNEL_STAGES, Stage, StageTexts
from ortpkg.compiler.schedules.schedules_by_form import SchedulesByForm
from ortpkg.compiler.tensor_ir.tensor_text import operations_text
from ortpkg.compiler.tensor_stages import TensorStages
from ortpkg.graph.graph import Graph


def compilation_texts(
    graph: Graph, target: CompilationTarget, stages: Collection[Stage], kernel: str | None = None
) -> StageTexts:
    """Return the texts of a graph that can be compiled, in the order of the stages.

    Args:
        graph: a partition, as the compiler gets it.
        target: the CPU to compile for.
        stages: the texts to return; the text of the steps belongs to the program and is not made
            here.
        kernel: name of the only kernel to return in stages with one text for each kernel; None for
            all.

    Raises:
        CompileError: if a node cannot be lowered, or LLVM fails.
    """
    with as_compile_errors(graph.name):
        tensor_stages = TensorStages.of(graph, SchedulesByForm(machine_model(target)))
        tensor_stages.verify()
        programs = {
            Stage.TENSOR: tensor_stages.lowered,
            Stage.FUSED: tensor_stages.fused,
            Stage.BLOCKED: tensor_stages.blocked,
        }
        texts: dict[Stage, Mapping[str, str]] = {
            stage: {graph.name: operations_text(program.operations)}
            for stage, program in programs.items()
            if stage in stages
        }
        if any(stage in stages for stage in KERNEL_STAGES):
            library = _library(tensor_stages, target)
            names = [name for name in library.texts() if kernel in (None, name)]
            makers = {
                Stage.KERNELS: library.texts().__getitem__,
                Stage.LLVM: library.llvm_text,
                Stage.ASSEMBLY: library.assembly_text,
            }
            texts |= {
                stage: {name: make(name) for name in names}
                for stage, make in makers.items()
                if stage in stages
            }
    return texts


def _library(stages: TensorStages, target: CompilationTarget) -> KernelLibrary:
    library = KernelLibrary(target)
    for _, scheduled in stages.kernels:
        library.add(scheduled.kernel)
    return library
