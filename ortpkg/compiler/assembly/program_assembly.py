"""Turns a scheduled tensor program into a runnable one: assigns memory and compiles kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ortpkg.compiler.assembly.compilation_target import CompilationTarget
from ortpkg.compiler.assembly.kernel_compiler import KernelCompiler
from ortpkg.compiler.assembly.kernel_library import KernelLibrary
from ortpkg.compiler.assembly.storage import Storage
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.lowering_scope import SCALARS
from ortpkg.compiler.machine_code.program import Guard, Program, Step, TensorSpec
from ortpkg.compiler.schedules.kernel_cost import kernel_cost_ps
from ortpkg.compiler.schedules.machine_model import MachineModel
from ortpkg.compiler.schedules.scheduled_kernel import ScheduledKernel
from ortpkg.compiler.tensor_ir.elements import Tensor
from ortpkg.compiler.tensor_ir.operations import Operation
from ortpkg.compiler.tensor_ir.tensor_program import Array, TensorProgram
from ortpkg.graph.types import ElementType

_ELEMENT_TYPES: Mapping[Scalar, ElementType] = {
    scalar: element_type for element_type, scalar in SCALARS.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCode:
    """A compiled partition.

    Attributes:
        program: the program to run.
        code: its machine code.
        constants: the bytes of its constants, by the name of their part.
    """

    program: Program
    code: bytes
    constants: Mapping[str, Array]


def machine_model(target: CompilationTarget) -> MachineModel:
    """Return the model of the target that schedules use."""
    cpu = target.cpu
    return MachineModel(
        vector_nbytes=cpu.vector_nbytes,
        register_count=cpu.register_count,
        l1_nbytes=cpu.l1_nbytes,
        l2_nbytes=cpu.l2_nbytes,
        has_fma=cpu.family == "aarch64" or "fma" in cpu.features,
        features=target.features,
        multiplies_bfloat=target.multiplies_bfloat,
        sums_directly=target.sums_directly,
    )


def assemble(
    tensors: TensorProgram,
    kernels: Sequence[tuple[Operation, ScheduledKernel]],
    target: CompilationTarget,
    model: MachineModel,
    compiler: KernelCompiler,
    guards: tuple[Guard, ...] = (),
) -> CompiledCode:
    """Assign memory to a program's tensors and compile its kernels.

    Args:
        tensors: the program, fused.
        kernels: its operations with their kernels, in the order in which they run.
        target: the target to compile for.
        model, compiler: model and compiler of that target.
        guards: conditions that the program checks on sizes.

    Raises:
        CompileError: if LLVM fails.
        LimitExceededError: if a load limit is exceeded.
    """
    library, storage = KernelLibrary(target, compiler), Storage(tensors)
    steps: list[Step] = []
    scratch_nbytes = 0
    for operation, scheduled in kernels:
        scratch_nbytes = max(scratch_nbytes, scheduled.kernel.scratch_nbytes)
        steps.append(
            Step(
                kernel=library.add(scheduled.kernel),
                buffers=storage.uses(scheduled, len(steps)),
                sizes=scheduled.sizes,
                tile_count=scheduled.tile_count,
                wave_tiles=scheduled.wave_tiles,
                name=", ".join(tensors.origins.get(operation.output, ())),
                cost_ps=kernel_cost_ps(operation, scheduled, model),
                conditions=scheduled.conditions,
            )
        )
    linked = library.link()
    program = Program(
        target=target.cpu.name,
        extras=target.extras,
        inputs=tuple(map(_spec, tensors.inputs)),
        outputs=tuple(map(_spec, tensors.outputs)),
        constants=tuple(storage.constants),
        arena=storage.arena(),
        steps=tuple(steps),
        functions=linked.functions,
        code_nbytes=len(linked.data),
        scratch_nbytes=scratch_nbytes,
        guards=guards,
        reports=tuple(tensors.reports.values()),
        is_checked=target.is_checked,
    )
    return CompiledCode(
        program=program,
        code=linked.data,
        constants=storage.parts,
    )


def _spec(tensor: Tensor) -> TensorSpec:
    return TensorSpec(
        element_type=_ELEMENT_TYPES[tensor.scalar], shape=tensor.shape, name=tensor.name
    )
