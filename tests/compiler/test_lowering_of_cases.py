"""onnx's own cases: what lowering makes of a node is what the node computes, fused or not."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path

import numpy as np

from ortpkg.compiler import lowering
from ortpkg.compiler.lowering.lowering_scope import NotLoweredError
from ortpkg.compiler.lowering.operator_lowerings import LOWERINGS, lower_graph
from ortpkg.compiler.passes import optimized
from ortpkg.compiler.tensor_ir.operations import Convolution
from ortpkg.compiler.tensor_ir.tensor_verifier import verify_operations
from ortpkg.foundations.errors import OrtpkgError
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.inference import infer_sizes
from tests.compiler.compared_with_engine import assert_as_engine
from tests.compiler.reference_program import run_program
from tests.conformance.cases import Case, load_cases
from tests.conformance.comparison import difference


def _lowered_cases() -> list[Case]:
    """Cases of which each node's operator is lowered."""
    return [
        case
        for case in load_cases("node")
        if all((node.domain, node.op_type) in LOWERINGS for node in case.load_model().graph.node)
    ]


#: Fewer were lowered whole when a change has broken some.
_LEAST_LOWERED = 485


def test_what_is_lowered_computes_what_onnx_says() -> None:
    wrong: list[str] = []
    left: dict[str, str] = {}
    lowered = 0
    for case in _lowered_cases():
        try:
            model = load_model(case.load_model().SerializeToString())
            program = lower_graph(model.graph, infer_sizes(model), case.name)
        except (NotLoweredError, OrtpkgError) as error:
            left[case.name] = str(error)
            continue
        lowered += 1
        for stage, made in (("lowered", program), ("fused", optimized(program))):
            verify_operations(made.operations)
            for data in case.load_data_sets():
                problem = difference(
                    run_program(made, data.inputs), data.outputs, rtol=case.rtol, atol=case.atol
                )
                if problem:
                    wrong.append(f"{case.name} ({stage}): {problem}")
    assert not wrong, "\n".join(wrong)
    assert lowered >= _LEAST_LOWERED, f"{lowered} lowered; left: {left}"


def test_every_function_that_lowers_is_in_the_table_once() -> None:
    folder = Path(lowering.__path__[0])
    modules = [
        import_module(f"{lowering.__name__}.{path.stem}")
        for path in folder.glob("*.py")
        if "\n@lowers(" in path.read_text(encoding="utf-8")
    ]
    tagged = Counter(
        key
        for module in modules
        for function in vars(module).values()
        if getattr(function, "__module__", "") == module.__name__
        for key in getattr(function, "lowered_operators", ())
    )
    assert tagged.keys() - LOWERINGS.keys() == set(), "enter their module in operator_lowerings.py"
    assert [key for key, count in tagged.items() if count > 1] == [], "two functions lower them"


def test_a_transposed_convolution_spreads_its_source() -> None:
    text = """g (float[1, 2, 3, 3] x) => (float[1, 1, 8, 7] y)
        <float[2, 1, 2, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[1] b = {-40}>
        { a = ConvTranspose<strides = [3, 2]>(x, w, b) y = Relu(a) }"""
    source = np.arange(-9, 9, dtype=np.float32).reshape(1, 2, 3, 3)
    program = assert_as_engine(text, {"x": source})
    (operation,) = program.operations
    assert isinstance(operation, Convolution)
    assert operation.spread == (3, 2)
