"""What every kernel definition has to keep to, and that kernels keep nothing between runs."""

from __future__ import annotations

import concurrent.futures
import types
from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import onnx
import pytest

from ortpkg.graph.types import ElementType
from ortpkg.runtime.kernels.cpu_kernels import CPU_KERNEL_MODULES, cpu_kernel_registry
from ortpkg.runtime.kernels.kernel_registry import KernelDef, kernel_defs_of
from tests.kernels.backend_cases import cases_of
from tests.kernels.node_runner import (
    RunContext,
    as_node,
    as_value,
    assert_same,
    make_compute,
    run_op,
)

DEFINITIONS = cpu_kernel_registry().definitions()
#: Exporters stamped the normalizations with the main domain; If, Loop and Scan share one list of
#: versions.
NOT_IN_ONNX = {
    ("", "LayerNormalization", 1),
    ("", "SimplifiedLayerNormalization", 1),
    ("", "Scan", 13),
}
STATELESS_OPERATORS = [
    "Add",
    "ArgMax",
    "Attention",
    "AveragePool",
    "BatchNormalization",
    "Cast",
    "Clip",
    "Concat",
    "Conv",
    "ConvTranspose",
    "CumSum",
    "Einsum",
    "Erf",
    "Gather",
    "Gemm",
    "GroupNormalization",
    "GRU",
    "LayerNormalization",
    "LSTM",
    "MatMul",
    "MaxPool",
    "OneHot",
    "Pad",
    "Pow",
    "ReduceMean",
    "Resize",
    "RotaryEmbedding",
    "ScatterND",
    "Slice",
    "Softmax",
    "Split",
    "TopK",
    "Transpose",
    "Where",
]


def schema_of(definition: KernelDef, version: int) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(definition.op_type, version, definition.domain)
    except onnx.defs.SchemaError:
        return None


def test_every_version_is_one_that_onnx_defines() -> None:
    wrong = [
        (definition.domain, definition.op_type, version)
        for definition in DEFINITIONS
        for version in definition.since
        if definition.domain in ("", "ai.onnx.ml")
        if (schema := schema_of(definition, version)) is None or schema.since_version != version
    ]
    assert set(wrong) <= NOT_IN_ONNX


def test_type_constraints_are_those_of_the_operator() -> None:
    wrong = [
        (definition.op_type, version, name)
        for definition in DEFINITIONS
        for version in definition.since
        if (schema := schema_of(definition, version)) is not None
        and schema.since_version == version
        for name in definition.types
        if name not in {constraint.type_param_str for constraint in schema.type_constraints}
        if not any(
            name in {c.type_param_str for c in other.type_constraints}
            for other_version in definition.since
            if (other := schema_of(definition, other_version)) is not None
        )
    ]
    assert wrong == []


def test_in_place_and_alias_pairs_name_existing_inputs_and_outputs() -> None:
    wrong = [
        definition.op_type
        for definition in DEFINITIONS
        if (schema := schema_of(definition, max(definition.since))) is not None
        for source, target in (*definition.in_place, *definition.alias)
        if source >= schema.max_input or target >= schema.max_output
    ]
    assert wrong == []


def test_no_two_definitions_serve_the_same_node() -> None:
    served: dict[tuple[str, str, int], list[KernelDef]] = {}
    for definition in DEFINITIONS:
        for version in definition.since:
            served.setdefault((definition.domain, definition.op_type, version), []).append(
                definition
            )
    twice = [
        key
        for key, definitions in served.items()
        if any(may_serve_one_node(*pair) for pair in combinations(definitions, 2))
    ]
    assert twice == []


def may_serve_one_node(one: KernelDef, other: KernelDef) -> bool:
    """Whether there are element types that both allow."""
    return all(one.types[name] & other.types[name] for name in one.types.keys() & other.types)


def test_kernels_for_other_types_are_no_second_kernels() -> None:
    def kernel_of(*types: ElementType) -> KernelDef:
        return KernelDef(
            op_type="Neg",
            since=(13,),
            types={"T": frozenset(types)},
            factory=lambda _info: np.negative,
        )

    floats = kernel_of(ElementType.FLOAT, ElementType.DOUBLE)
    assert not may_serve_one_node(floats, kernel_of(ElementType.INT8))
    assert may_serve_one_node(floats, kernel_of(ElementType.DOUBLE))


def test_module_brings_only_its_own_definitions() -> None:
    counts = Counter(
        id(definition) for module in CPU_KERNEL_MODULES for definition in kernel_defs_of(module)
    )
    assert set(counts.values()) == {1}


def frozen(value: Any, seen: dict[int, Any] | None = None) -> Any:
    """All that a compute function holds as a comparable value: closures, arrays, ..."""
    seen = {} if seen is None else seen
    if id(value) in seen:
        return "seen"
    seen[id(value)] = value
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, value.tobytes())
    if isinstance(value, types.FunctionType):
        cells = value.__closure__ or ()
        return tuple(frozen(cell.cell_contents, seen) for cell in cells), frozen(
            value.__defaults__, seen
        )
    if isinstance(value, dict):
        return tuple((key, frozen(item, seen)) for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(frozen(item, seen) for item in value)
    names = getattr(value, "__slots__", None) or getattr(value, "__dict__", {})
    if (
        isinstance(value, type | types.ModuleType | types.BuiltinFunctionType | np.ufunc)
        or not names
    ):
        return repr(value)
    return tuple(
        (name, frozen(getattr(value, name), seen)) for name in names if hasattr(value, name)
    )


@pytest.mark.requirement("D09", "D10")
@pytest.mark.parametrize("op_type", STATELESS_OPERATORS)
def test_kernel_keeps_nothing_between_runs_and_runs_on_many_threads(op_type: str) -> None:
    case = cases_of(op_type)[0]
    (proto,) = case.model.graph.node
    opset = {i.domain: i.version for i in case.model.opset_import}
    node = as_node(proto, opset)
    feeds = iter([as_value(value) for value in case.data_sets[0][0]])
    inputs = [next(feeds) if name else None for name in proto.input]
    constant_slots = [slot for slot in range(1, len(inputs)) if inputs[slot] is not None]
    _, compute = make_compute(node, inputs, opset[""], constant_slots)
    before = frozen(compute)

    def run(_: int) -> Any:
        with np.errstate(all="ignore"):
            result = compute(RunContext(), *inputs)
        return result if isinstance(result, tuple) else (result,)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, range(8)))
    expected = [as_value(value) for value in case.data_sets[0][1]]
    for result in results:
        given = [value for value, name in zip(result, proto.output, strict=False) if name]
        for actual, wanted in zip(given, expected, strict=True):
            assert_same(actual, wanted, rtol=case.rtol, atol=max(case.atol, 1e-6))
    assert frozen(compute) == before


def test_freezing_notices_a_kernel_that_counts() -> None:
    state = {"runs": 0}

    def compute() -> None:
        state["runs"] += 1

    before = frozen(compute)
    compute()
    assert frozen(compute) != before


@pytest.mark.parametrize(
    "op_type", ["Relu", "Softmax", "ReduceSum", "Transpose", "GlobalAveragePool"]
)
def test_one_kernel_serves_inputs_of_different_shapes(op_type: str) -> None:
    node = as_node(onnx.helper.make_node(op_type, ["x"], ["y"]), {"": 18})
    small, large = np.ones((1, 2, 3), np.float32), np.ones((2, 3, 4, 5), np.float32)
    _, compute = make_compute(node, [small], 18)
    for x in (small, large, small):
        np.testing.assert_array_equal(compute(RunContext(), x), run_op(op_type, x, opset=18))
