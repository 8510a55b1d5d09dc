"""The compiler: turns a graph of ONNX nodes into machine code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ortpkg.compiler.assembly.compilation_target import CompilationTarget
from ortpkg.compiler.assembly.kernel_compiler import KernelCompiler
from ortpkg.compiler.assembly.program_assembly import CompiledCode, assemble, machine_model
from ortpkg.compiler.claims import examine_partition
from ortpkg.compiler.loop_ir.kernel_verifier import KernelFaultError
from ortpkg.compiler.lowering.lowering_scope import NotLoweredError
from ortpkg.compiler.machine_code.kernel_cache import KernelCache
from ortpkg.compiler.schedules.schedules_by_form import SchedulesByForm
from ortpkg.compiler.tensor_ir.tensor_verifier import OperationFaultError
from ortpkg.compiler.tensor_stages import ExaminedStages, TensorStages, graph_key
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.foundations.errors import CompileError, quoted
from ortpkg.graph.graph import Graph
from ortpkg.graph.shapes.expressions import TooLargeError


class Compiler:
    """Compiles partitions for one target, equal kernels only once. Close it after use."""

    def __init__(self, target: CompilationTarget, kernels: KernelCache | None = None) -> None:
        """Create a compiler; ``kernels`` is the cache of compiled kernels, None for no cache."""
        self._target = target
        self._kernels = KernelCompiler(target, kernels)
        self._schedules = SchedulesByForm(machine_model(target))
        self._stages = ExaminedStages()

    def reasons_against(self, body: Graph) -> Mapping[int, str]:
        """Return why nodes of a partition cannot be compiled, by node index.

        If all can be, the partition's stages are kept until it is compiled.
        """
        key = graph_key(body)
        examined = examine_partition(body, self._schedules)
        if examined.stages is not None:
            self._stages.keep(key, body, examined.stages)
        return examined.reasons

    def compile(self, graph: Graph) -> CompiledCode:
        """Compile a graph whose nodes can be lowered and whose types are known.

        Raises:
            CompileError: if a node cannot be lowered after all, or LLVM fails.
        """
        with as_compile_errors(graph.name):
            stages = self._stages.take(graph_key(graph))
            if stages is None:
                stages = TensorStages.of(graph, self._schedules)
            stages.verify()
            return assemble(
                stages.blocked,
                stages.kernels,
                self._target,
                self._schedules.model,
                self._kernels,
                stages.guards,
            )

    def close(self) -> None:
        """End the work in progress, with its child processes."""
        self._kernels.close()


@contextmanager
def as_compile_errors(partition: str) -> Iterator[None]:
    """Raise the compiler's refusals and faults of a partition as CompileError."""
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
