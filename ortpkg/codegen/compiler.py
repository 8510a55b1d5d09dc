"""The compiler's way from a graph of ONNX nodes to machine code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from ortpkg.codegen.assembly.compilation_target import CompilationTarget
from ortpkg.codegen.assembly.kernel_compiler import KernelCompiler
from ortpkg.codegen.assembly.program_assembly import CompiledCode, assemble, machine_model
from ortpkg.codegen.assembly.size_guards import size_guards
from ortpkg.codegen.claims import reasons_in_partition
from ortpkg.codegen.layouts.channel_blocking import block_channels
from ortpkg.codegen.loop_ir.kernel_verifier import KernelFaultError
from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.lowering.lowering_scope import NotLoweredError
from ortpkg.codegen.lowering.operator_lowerings import lower_graph
from ortpkg.codegen.passes import optimized
from ortpkg.codegen.schedules.schedules_by_form import SchedulesByForm
from ortpkg.codegen.tensor_ir.tensor_program import TensorProgram
from ortpkg.codegen.tensor_ir.tensor_verifier import OperationFaultError, verify_operations
from ortpkg.ep_context.kernel_cache import KernelCache
from ortpkg.ep_names import LLVM_EP
from ortpkg.errors import CompileError, quoted
from ortpkg.graph.graph import Graph
from ortpkg.graph.model import Model
from ortpkg.machine_code.program import Guard
from ortpkg.shapes.expressions import TooLargeError
from ortpkg.shapes.inference import infer_sizes

_IR_VERSION = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorStages:
    """A graph as tensor programs, one for each stage before schedules.

    Attributes:
        lowered: as its nodes are lowered.
        fused: after fusion.
        blocked: in the layouts that are compiled.
        guards: what the code will ask of sizes.
    """

    lowered: TensorProgram
    fused: TensorProgram
    blocked: TensorProgram
    guards: tuple[Guard, ...]

    @classmethod
    def of(cls, graph: Graph, target: CompilationTarget) -> TensorStages:
        """The stages of a graph, each verified.

        Raises NotLoweredError where a node cannot be lowered after all, OperationFaultError where
        a stage made what is wrong.
        """
        known = infer_sizes(Model(graph=graph, ir_version=_IR_VERSION))
        lowered = lower_graph(graph, known, graph.name)
        guards = size_guards(lowered)
        fused = optimized(lowered, multiplies_bfloat=target.multiplies_bfloat)
        lanes = machine_model(target).lanes(Scalar.F32)
        blocked = block_channels(fused, lanes)
        for stage in (fused, blocked):
            verify_operations(stage.operations)
        return cls(lowered=lowered, fused=fused, blocked=blocked, guards=guards)


class Compiler:
    """Compiles partitions for one target; what is equal among them is made once. Close it."""

    def __init__(self, target: CompilationTarget, kernels: KernelCache | None = None) -> None:
        """``kernels``: where compiled kernels are looked for and kept; None for nowhere."""
        self._target = target
        self._kernels = KernelCompiler(target, kernels)
        self._schedules = SchedulesByForm(machine_model(target))

    def reasons_against(self, body: Graph) -> Mapping[int, str]:
        """Why nodes of a partition are not compiled, seen from inside of it, by index."""
        return reasons_in_partition(body, self._schedules)

    def compile(self, graph: Graph) -> CompiledCode:
        """Compiles a graph whose nodes are lowered and whose types are known.

        Raises CompileError where a node cannot be lowered after all, or LLVM fails.
        """
        with told_as_compile_errors(graph.name):
            stages = TensorStages.of(graph, self._target)
            return assemble(
                stages.blocked, self._target, self._schedules, self._kernels, stages.guards
            )

    def close(self) -> None:
        """Ends what is under way, the child processes among it."""
        self._kernels.close()


@contextmanager
def told_as_compile_errors(partition: str) -> Iterator[None]:
    """What stages inside raise of a graph that they cannot do, as CompileError."""
    try:
        yield
    except NotLoweredError as error:
        raise CompileError(
            f"partition {quoted(partition)} cannot be compiled: {error}", ep_name=LLVM_EP
        ) from error
    except (OperationFaultError, KernelFaultError) as error:
        raise CompileError(
            f"partition {quoted(partition)} cannot be compiled, for a fault of the compiler:"
            f" {error}",
            ep_name=LLVM_EP,
        ) from error
    except TooLargeError as error:
        raise CompileError(
            f"partition {quoted(partition)} cannot be compiled: a size's formula is too large",
            ep_name=LLVM_EP,
        ) from error
