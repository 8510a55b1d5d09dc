"""Inference on onnx's backend models, against onnx's own and against runs.

Never less precise where onnx is sure, never another size than the expected outputs have; with every
dimension of the inputs turned into a symbol, what the expressions say for the sizes of the data.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
import pytest

from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.expressions import evaluate, symbols_of
from ortpkg.graph.shapes.inference import infer_sizes, infer_types
from ortpkg.graph.shapes.knowledge import KnownTensor
from ortpkg.graph.types import TensorType, ValueType
from ortpkg.graph.value_types import value_type_from_proto
from tests.conformance.cases import Case, load_cases

SUITES = ("simple", "pytorch-converted", "pytorch-operator", "node")
#: Parts of the node suite, so that several workers share it.
PARTS = 6


@cache
def cases_of(suite: str) -> list[Case]:
    return load_cases(suite)


EVERY_PART = [
    pytest.param(suite, part, id=f"{suite}-{part}")
    for suite in SUITES
    for part in range(PARTS if suite == "node" else 1)
]


def part_of(suite: str, part: int) -> list[Case]:
    return cases_of(suite)[part :: PARTS if suite == "node" else 1]


def without_declared_outputs(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model without what it says of values that nodes make."""
    stripped = onnx.ModelProto()
    stripped.CopyFrom(proto)
    inputs = {value.name for value in stripped.graph.input}
    del stripped.graph.value_info[:]
    for value in stripped.graph.output:
        if value.name not in inputs and value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return stripped


def onnx_types(proto: onnx.ModelProto) -> dict[str, ValueType]:
    """What onnx's inference says of the main graph's values."""
    graph = onnx.shape_inference.infer_shapes(proto, data_prop=True).graph
    found = {
        value.name: value_type_from_proto(value.type, value.name)
        for value in (*graph.value_info, *graph.output)
    }
    return {name: known for name, known in found.items() if known is not None}


def difference(ours: ValueType | None, theirs: ValueType) -> str:
    """How ``ours`` says less than, or something else than ``theirs``; "" where it does not."""
    if str(ours) != str(theirs):
        return f"type {ours}, onnx says {theirs}"
    if (
        not isinstance(ours, TensorType)
        or not isinstance(theirs, TensorType)
        or theirs.shape is None
    ):
        return ""
    if ours.shape is None or len(ours.shape) != len(theirs.shape):
        return f"shape {ours.shape}, onnx says {theirs.shape}"
    is_sure = [isinstance(size, int) for size in theirs.shape]
    if any(
        sure and mine != size
        for sure, mine, size in zip(is_sure, ours.shape, theirs.shape, strict=True)
    ):
        return f"shape {ours.shape}, onnx says {theirs.shape}"
    return ""


@pytest.mark.parametrize(("suite", "part"), EVERY_PART)
def test_knows_all_that_onnx_knows(suite: str, part: int) -> None:
    compared, problems = 0, []
    for case in part_of(suite, part):
        proto = without_declared_outputs(case.load_model())
        model = load_model(proto)
        infer_types(model)
        for name, theirs in onnx_types(proto).items():
            if model.graph.producer_of(name) is None:
                continue
            compared += 1
            if found := difference(model.graph.types.get(name), theirs):
                problems.append(f"{case.id} {name}: {found}")
    assert not problems
    assert compared > len(part_of(suite, part)) // 2


def with_symbols(
    proto: onnx.ModelProto, arrays: dict[str, Any]
) -> tuple[onnx.ModelProto, dict[str, int]]:
    """The model with a symbol for each dimension of its inputs, and their values in the data."""
    changed, values = without_declared_outputs(proto), {}
    for value in changed.graph.input:
        array = arrays.get(value.name)
        if not isinstance(array, np.ndarray) or not value.type.HasField("tensor_type"):
            continue
        for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
            dimension.Clear()
            dimension.dim_param = f"{value.name}_{axis}"
            values[dimension.dim_param] = array.shape[axis]
    return changed, values


@pytest.mark.parametrize(("suite", "part"), EVERY_PART)
def test_symbols_stand_for_the_sizes_of_the_data(suite: str, part: int) -> None:
    compared, problems = 0, []
    for case in part_of(suite, part):
        data = case.load_data_sets()[0]
        model = case.load_model()
        constants = {tensor.name for tensor in model.graph.initializer}
        names = [value.name for value in model.graph.input if value.name not in constants]
        proto, values = with_symbols(model, dict(zip(names, data.inputs, strict=False)))
        loaded = load_model(proto)
        sizes = infer_sizes(loaded)
        for name, expected in zip(loaded.graph.outputs, data.outputs, strict=True):
            known = sizes.get(name)
            if (
                not isinstance(known, KnownTensor)
                or known.shape is None
                or not isinstance(expected, np.ndarray)
            ):
                continue
            said = [
                None
                if any(each.is_anonymous for each in symbols_of(size))
                else evaluate(size, values)
                for size in known.shape
            ]
            compared += 1
            if len(said) != expected.ndim or any(
                mine not in {None, size} for mine, size in zip(said, expected.shape, strict=True)
            ):
                problems.append(
                    f"{case.id} {name}: {list(map(str, known.shape))} for {expected.shape}"
                )
    assert not problems
    assert compared > len(part_of(suite, part)) // 2
