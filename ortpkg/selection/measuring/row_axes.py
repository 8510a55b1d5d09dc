"""Decide whether the first dimension of a model's output counts the rows that are fed.

Equal sizes may be a coincidence: a model of ``[n, 2]`` that returns ``[d, 2]`` may find three
things in three rows, all of them in the first. The names of dimensions decide, as the model
declares them and as shape inference carries them from inputs to outputs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from ortpkg.foundations.errors import OrtpkgError
from ortpkg.graph.declared_values import DeclaredValue
from ortpkg.graph.model import Model
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.shapes.expressions import Size, symbols_of
from ortpkg.graph.shapes.inference import infer_sizes
from ortpkg.graph.shapes.knowledge import KnownTensor
from ortpkg.graph.topology import all_graphs
from ortpkg.graph.types import TensorType
from ortpkg.package.formats.pipeline import ComponentStep, Pipeline

#: Words that exporters write instead of an unknown name.
_NO_NAME = re.compile(r"|\?|\*|-1|none|unk|unknown|unk__\d+|unknown_\d+", re.IGNORECASE)
#: Name of the rows' dimension while a model is inferred whose inputs have none.
_ROWS = "rows of ortpkg"
#: Larger graphs are not inferred for this: their outputs are known by names alone.
_MOST_NODES = 50_000
#: Names in a dimension that is a formula of others, such as ``batch*heads``.
_NAME_IN_FORMULA = re.compile(r"[^\s()*+/-]+")


class RowAxis(Enum):
    """The meaning of an output's first dimension."""

    ROWS = "rows"
    """One entry for each row."""
    ONE = "one"
    """A single entry, however many rows are fed."""
    MIXED = "mixed"
    """Rows that depend on all rows fed, since another dimension counts rows too."""
    WHOLE = "whole"
    """Something else, or there is none: the output belongs to the run as a whole."""
    UNKNOWN = "unknown"
    """Neither names nor inference tell."""


def dimension_name(size: int | str | None) -> str | None:
    """Return the name of a dimension; None for a number, and for words that say "unknown"."""
    return None if not isinstance(size, str) or _NO_NAME.fullmatch(size.strip()) else size


def is_free(declared: DeclaredValue) -> bool:
    """Return True if a value may have any number of entries along its first dimension."""
    return declared.shape is None or (
        bool(declared.shape) and not isinstance(declared.shape[0], int)
    )


def declared_axis(output: DeclaredValue, row_names: Collection[str]) -> RowAxis:
    """Return the meaning of an output's first dimension according to the model's declarations.

    Args:
        output: the output.
        row_names: names of the first dimensions of the inputs.
    """
    if output.shape is None:
        return RowAxis.UNKNOWN
    first = output.shape[0] if output.shape else 0
    if isinstance(first, int):
        return RowAxis.ONE if first == 1 else RowAxis.WHOLE
    name = dimension_name(first)
    if name is None:
        return RowAxis.UNKNOWN
    if name not in row_names:
        return RowAxis.WHOLE
    return RowAxis.MIXED if repeats_rows(output, row_names) else RowAxis.ROWS


def repeats_rows(declared: DeclaredValue, row_names: Collection[str]) -> bool:
    """Return True if a dimension after the first one has the rows' name, or a formula of it."""
    return any(
        not names.isdisjoint(row_names)
        for size in (declared.shape or ())[1:]
        if isinstance(size, str)
        for names in [{size, *_NAME_IN_FORMULA.findall(size)}]
    )


def row_names(inputs: Iterable[DeclaredValue]) -> frozenset[str]:
    """Return the names of the first dimensions of inputs."""
    firsts = (declared.shape[0] for declared in inputs if declared.shape)
    return frozenset(name for name in map(dimension_name, firsts) if name is not None)


def row_axes(
    inputs: Sequence[DeclaredValue],
    outputs: Sequence[DeclaredValue],
    models: Mapping[str, Path | None],
    pipeline: Pipeline | None = None,
) -> dict[str, RowAxis]:
    """Return the meaning of each output's first dimension.

    A name that an output shares with an input decides. If there is none, the model's graph is
    inferred with one symbol for the first dimension of all inputs. If that does not help either, a
    name of the output's own means that it is no row. Dimensions after the first one whose names no
    input has are inferred too: each of them may count the rows again.

    Args:
        inputs, outputs: inputs and outputs as the session declares them.
        models: component → file of its model; None if it has none that can be read.
        pipeline: the order in which components run; None for one component.
    """
    names = row_names(inputs)
    declared = {output.name: declared_axis(output, names) for output in outputs}
    row_inputs = [value.name for value in inputs if is_free(value)]
    input_names = {size for value in inputs for size in value.shape or () if dimension_name(size)}
    unsettled = [output for output in outputs if not _is_settled(output, names, input_names)]
    if not unsettled:
        return declared
    if pipeline is not None:
        inferred = _pipeline_axes(pipeline, models, row_inputs)
    else:
        (model,) = models.values()
        inferred = _inferred(model, row_inputs)
    for output in unsettled:
        axis = inferred.get(output.name, RowAxis.UNKNOWN)
        is_named = declared[output.name] in {RowAxis.ROWS, RowAxis.MIXED}
        if axis is RowAxis.MIXED or (axis is not RowAxis.UNKNOWN and not is_named):
            declared[output.name] = axis
    return declared


def _is_settled(
    output: DeclaredValue, names: Collection[str], input_names: Collection[int | str | None]
) -> bool:
    """Return True if declared sizes, or names that inputs have too, make inference unnecessary."""
    if output.shape is None:
        return False
    if not output.shape or isinstance(output.shape[0], int):
        return True
    others = output.shape[1:]
    return output.shape[0] in names and all(
        isinstance(size, int) or size in input_names for size in others
    )


def _pipeline_axes(
    pipeline: Pipeline, models: Mapping[str, Path | None], row_inputs: Iterable[str]
) -> dict[str, RowAxis]:
    """Follow rows through the components; the results of loops are unknown."""
    axes: dict[str, RowAxis] = dict.fromkeys(row_inputs, RowAxis.ROWS)
    for step in pipeline.steps:
        if not isinstance(step, ComponentStep):
            continue
        rows = [name for name, value in step.inputs.items() if axes.get(value) is RowAxis.ROWS]
        is_open = any(axes.get(value) is RowAxis.UNKNOWN for value in step.inputs.values())
        inferred = {} if is_open else _inferred(models.get(step.component), rows)
        for name, value in step.outputs.items():
            axes[value] = inferred.get(name, RowAxis.UNKNOWN)
    return axes


def _inferred(path: Path | None, row_inputs: Collection[str]) -> dict[str, RowAxis]:
    """Return what inference of a model's graph tells about its outputs; nothing if it fails."""
    if path is None:
        return {}
    try:
        model = load_model(path)
        if sum(map(len, all_graphs(model.graph))) > _MOST_NODES:
            return {}
        symbol = _name_rows(model, row_inputs)
        sizes = infer_sizes(model)
    except OrtpkgError:  # the session reports what is wrong with a model
        return {}
    return {name: _axis(sizes.get(name), symbol) for name in model.graph.outputs}


def _name_rows(model: Model, row_inputs: Collection[str]) -> str:
    """Name the first dimension of the inputs with rows if it has no name; return the name."""
    graph = model.graph
    firsts = {name: _first(graph.types.get(name)) for name in row_inputs}
    names = {name for name in map(dimension_name, firsts.values()) if name is not None}
    symbol = names.pop() if len(names) == 1 else _ROWS
    for name, first in firsts.items():
        value_type = graph.types.get(name)
        if (
            dimension_name(first) is None
            and isinstance(value_type, TensorType)
            and value_type.shape
        ):
            graph.set_type(
                name, TensorType(value_type.element_type, (symbol, *value_type.shape[1:]))
            )
    return symbol


def _first(value_type: Any) -> int | str | None:
    is_shaped = isinstance(value_type, TensorType) and value_type.shape
    return value_type.shape[0] if is_shaped else None


def _axis(knowledge: object, rows: str) -> RowAxis:
    if not isinstance(knowledge, KnownTensor) or knowledge.shape is None:
        return RowAxis.UNKNOWN
    first: Size = knowledge.shape[0] if knowledge.shape else 0
    if isinstance(first, int):
        return RowAxis.ONE if first == 1 else RowAxis.WHOLE
    if first.symbol is not None and first.symbol.name == rows:
        others = [size for size in knowledge.shape[1:] if not isinstance(size, int)]
        counted = {symbol.name for size in others for symbol in symbols_of(size)}
        return RowAxis.MIXED if rows in counted else RowAxis.ROWS
    is_named = all(
        not symbol.is_anonymous and dimension_name(symbol.name) is not None
        for symbol in symbols_of(first)
    )
    return RowAxis.WHOLE if is_named else RowAxis.UNKNOWN
