"""The compiler's way from a graph of ONNX nodes to machine code."""

from __future__ import annotations

from ortpkg.codegen.assembly.kernel_library import CompilationTarget
from ortpkg.codegen.assembly.program_assembly import CompiledCode, assemble, machine_model
from ortpkg.codegen.assembly.size_guards import size_guards
from ortpkg.codegen.layouts.channel_blocking import block_channels
from ortpkg.codegen.loop_ir.loop_types import Scalar
from ortpkg.codegen.lowering.lowering_scope import NotLoweredError
from ortpkg.codegen.lowering.operator_lowerings import lower_graph
from ortpkg.codegen.passes import optimized
from ortpkg.ep_names import LLVM_EP
from ortpkg.errors import CompileError, quoted
from ortpkg.graph.graph import Graph
from ortpkg.graph.model import Model
from ortpkg.shapes.expressions import TooLargeError
from ortpkg.shapes.inference import infer_sizes

_IR_VERSION = 10


def compile_graph(graph: Graph, target: CompilationTarget) -> CompiledCode:
    """Compiles a graph whose nodes are lowered and whose types are known.

    Raises CompileError where a node cannot be lowered after all, or LLVM fails.
    """
    known = infer_sizes(Model(graph=graph, ir_version=_IR_VERSION))
    try:
        lowered = lower_graph(graph, known, graph.name)
        guards = size_guards(lowered.operations)
        program = optimized(lowered)
        lanes = machine_model(target).lanes(Scalar.F32)
        return assemble(block_channels(program, lanes), target, guards)
    except NotLoweredError as error:
        raise CompileError(
            f"partition {quoted(graph.name)} cannot be compiled: {error}", ep_name=LLVM_EP
        ) from error
    except TooLargeError as error:
        raise CompileError(
            f"partition {quoted(graph.name)} cannot be compiled: a size's formula is too large",
            ep_name=LLVM_EP,
        ) from error
