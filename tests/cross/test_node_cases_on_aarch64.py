"""onnx's cases of the operators of most models, as AArch64 code, with dot products and without."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ortpkg.compiler.assembly.compilation_target import CompilationTarget
from ortpkg.compiler.assembly.program_assembly import machine_model
from ortpkg.compiler.layouts.channel_blocking import block_channels
from ortpkg.compiler.loop_ir.loop_types import Scalar
from ortpkg.compiler.lowering.lowering_scope import NotLoweredError
from ortpkg.compiler.lowering.operator_lowerings import lower_graph
from ortpkg.compiler.machine_code.cpu_targets import target_named
from ortpkg.compiler.passes import optimized
from ortpkg.compiler.schedules.schedule import schedule
from ortpkg.compiler.tensor_ir.elements import Tensor
from ortpkg.compiler.tensor_ir.operations import Alias
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.expressions import evaluate
from ortpkg.graph.shapes.inference import infer_sizes
from tests.compiler.native_kernels import Array
from tests.compiler.native_targets import NativeTarget
from tests.compiler.reference_elements import DTYPES
from tests.compiler.scheduled_kernels import run_scheduled
from tests.conformance.cases import Case, load_cases
from tests.conformance.comparison import difference
from tests.cross.kernels_on_aarch64 import run_kernel_on_aarch64

pytestmark = pytest.mark.cross

#: Beginnings of the names of onnx's cases.
_OPERATORS = (
    "add", "averagepool_2d", "basic_conv", "batchnorm", "cast_FLOAT", "clip", "concat_3d",
    "conv_with", "convinteger", "dequantizelinear", "div", "dynamicquantizelinear", "erf", "exp",
    "gather", "gelu", "gemm", "gru", "layer_normalization_2d", "log", "lstm", "matmul",
    "matmulinteger", "maxpool_2d", "mul", "pow", "qlinearconv", "qlinearmatmul", "quantizelinear",
    "reduce_max", "reduce_mean", "reduce_sum_d", "relu", "rnn", "sigmoid", "simple_rnn", "slice",
    "softmax", "softplus", "split_equal", "sqrt", "sub", "tanh", "transpose", "tril", "where",
)  # fmt: skip
_SUFFIXES = ("_expanded", "_expanded_ver18")
_TARGETS = ("linux-aarch64", "linux-aarch64_dotprod")
#: Fewer ran whole when a change has broken some.
_LEAST_RUN = 130


def _cases() -> list[Case]:
    return [
        case
        for case in load_cases("node")
        if case.name.removeprefix("test_").startswith(_OPERATORS)
        and not case.name.endswith(_SUFFIXES)
    ]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", _TARGETS)
def test_cases_of_the_most_used_operators_give_what_onnx_says(name: str) -> None:
    target = CompilationTarget(target_named(name), is_checked=True)
    wrong, count = [], 0
    for case in _cases():
        model = load_model(case.load_model().SerializeToString())
        try:
            program = optimized(lower_graph(model.graph, infer_sizes(model), case.name))
        except NotLoweredError:
            continue
        program = block_channels(program, machine_model(target).lanes(Scalar.F32))
        count += 1
        for data in case.load_data_sets():
            made = _run(program, data.inputs, target)
            problem = difference(made, data.outputs, rtol=case.rtol, atol=case.atol)
            if problem:
                wrong.append(f"{case.name}: {problem}")
    assert not wrong, "\n".join(wrong)
    assert count >= _LEAST_RUN


def _run(program: TensorProgram, inputs: Sequence[Array], target: CompilationTarget) -> list[Array]:
    """The program's outputs, each kernel run by the emulator."""
    model, cpu = machine_model(target), target.cpu
    native = NativeTarget(cpu.llvm_cpu, cpu.llvm_features, model)
    arrays: dict[Tensor, Array] = {
        tensor: np.ascontiguousarray(value, DTYPES[tensor.scalar]).reshape(_sizes(tensor))
        for tensor, value in zip(program.inputs, inputs, strict=True)
    }
    arrays |= {each: np.ascontiguousarray(array) for each, array in program.constants.items()}
    for operation in program.operations:
        if isinstance(operation, Alias):
            source = arrays[operation.source]
            arrays[operation.output] = source.reshape(_sizes(operation.output))
            continue
        kernels = schedule(operation, model, frozenset(program.constants))
        arrays = run_scheduled(kernels, arrays, native, run=run_kernel_on_aarch64)
    return [arrays[each] for each in program.outputs]


def _sizes(tensor: Tensor) -> tuple[int, ...]:
    """The tensor's sizes, which are all known."""
    return tuple(evaluate(size, {}) for size in tensor.shape)
