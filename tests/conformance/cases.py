"""The onnx package's own backend test cases, as values.

Suites: ``node`` (made in memory, one operator each, and its function's body for some), ``simple``,
``pytorch-converted`` and ``pytorch-operator`` (models and data on disk), ``light`` (the well-known
vision models with weights that are computed, fed a ramp).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
from onnx import numpy_helper

from tests.conformance.node_cases import node_cases

SUITES = ("node", "simple", "pytorch-converted", "pytorch-operator", "light")
_DATA = Path(next(iter(onnx.backend.test.__path__))) / "data"


@dataclass(frozen=True, slots=True)
class DataSet:
    """What a model is fed, in the order of its inputs, and what it must give."""

    inputs: Sequence[Any]
    outputs: Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One model with its data sets and tolerances.

    Models and data on disk are read when they are asked for.
    """

    suite: str
    name: str
    load_model: Callable[[], onnx.ModelProto]
    load_data_sets: Callable[[], list[DataSet]]
    rtol: float
    atol: float

    @property
    def id(self) -> str:
        return f"{self.suite}/{self.name}"


def load_cases(suite: str) -> list[Case]:
    """All cases of a suite, sorted by name."""
    cases = (
        _node_cases()
        if suite == "node"
        else _light_cases()
        if suite == "light"
        else _disk_cases(suite)
    )
    return sorted(cases, key=lambda case: case.name)


def _node_cases() -> list[Case]:
    return [_node_case(case) for case in node_cases()]


def _node_case(case: Any) -> Case:
    def data_sets() -> list[DataSet]:
        return [DataSet(_values(inputs), _values(outputs)) for inputs, outputs in case.data_sets]

    return Case(
        suite="node",
        name=case.name,
        load_model=lambda: case.model,
        load_data_sets=data_sets,
        rtol=case.rtol,
        atol=case.atol,
    )


def _values(values: Sequence[Any]) -> list[Any]:
    return [as_value(value) for value in values]


def as_value(value: Any) -> Any:
    """A data set's entry at run time: TensorProto decoded, strings as objects."""
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    if isinstance(value, list | tuple):
        return [as_value(item) for item in value]
    if isinstance(value, np.ndarray | np.generic | int | float):
        array = np.asarray(value)
        return array.astype(object) if array.dtype.kind in "US" else array
    return value


def _disk_cases(suite: str) -> list[Case]:
    return [
        _disk_case(suite, directory)
        for directory in (_DATA / suite).iterdir()
        if directory.is_dir()
    ]


def _disk_case(suite: str, directory: Path) -> Case:
    settings_file = directory / "data.json"
    settings = json.loads(settings_file.read_text("utf-8")) if settings_file.exists() else {}

    def model() -> onnx.ModelProto:
        return onnx.load(directory / "model.onnx")

    def data_sets() -> list[DataSet]:
        graph = model().graph
        return [
            DataSet(
                _read_values(folder, "input", graph.input),
                _read_values(folder, "output", graph.output),
            )
            for folder in sorted(directory.glob("test_data_set_*"))
        ]

    return Case(
        suite=suite,
        name=directory.name,
        load_model=model,
        load_data_sets=data_sets,
        rtol=settings.get("rtol", 1e-3),
        atol=settings.get("atol", 1e-7),
    )


def _read_values(folder: Path, role: str, declared: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    count = len(list(folder.glob(f"{role}_*.pb")))
    return [
        _read_value(folder / f"{role}_{index}.pb", declared[index].type) for index in range(count)
    ]


def _read_value(file: Path, value_type: onnx.TypeProto) -> Any:
    content = file.read_bytes()
    kind = value_type.WhichOneof("value")
    if kind == "sequence_type":
        return as_value(numpy_helper.to_list(onnx.SequenceProto.FromString(content)))
    if kind == "optional_type":
        return as_value(numpy_helper.to_optional(onnx.OptionalProto.FromString(content)))
    return as_value(onnx.TensorProto.FromString(content))


def _light_cases() -> list[Case]:
    return [
        _light_case(directory)
        for directory in (_DATA / "real").iterdir()
        if (directory / "data.json").exists()
    ]


def _light_case(directory: Path) -> Case:
    settings = json.loads((directory / "data.json").read_text("utf-8"))
    file = _DATA / "light" / Path(settings["url"]).name

    def model() -> onnx.ModelProto:
        return onnx.load(file)

    def data_sets() -> list[DataSet]:
        graph = model().graph
        initialized = {initializer.name for initializer in graph.initializer}
        inputs = [_ramp(value) for value in graph.input if value.name not in initialized]
        outputs = [
            as_value(
                onnx.TensorProto.FromString(
                    file.with_name(f"{file.stem}_output_{index}.pb").read_bytes()
                )
            )
            for index in range(len(graph.output))
        ]
        return [DataSet(inputs, outputs)]

    return Case(
        suite="light",
        name=directory.name,
        load_model=model,
        load_data_sets=data_sets,
        rtol=settings["rtol"],
        atol=settings["atol"],
    )


def _ramp(value: onnx.ValueInfoProto) -> Any:
    """What onnx's runner feeds such a model: 0 to 1 over all elements, free dimensions 1."""
    shape = tuple(dimension.dim_value or 1 for dimension in value.type.tensor_type.shape.dim)
    count = math.prod(shape)
    return (np.arange(count).reshape(shape) / count).astype(np.float32)
