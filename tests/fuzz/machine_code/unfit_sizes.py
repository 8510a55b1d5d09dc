"""Nodes with sizes and parameters that may not fit: machine code gives what numpy gives, or fails.

Sizes are declared as numbers or as symbols, and fed as they come. Inference takes much of them for
granted; what it does has to be asked before a run. Machine code may leave a run that it could take,
and may not give a result where the numpy kernels raise an error.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from ortpkg.foundations.errors import OrtpkgError
from ortpkg.runtime.providers.llvm.llvm_execution_provider import CHECK_ENTRY, STANDBY_ENTRY
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions

Array = npt.NDArray[Any]
_RUNS = 5
_MOST_TEXT = 3000
_FAR = (0, 1, -1, 2, -2, 5, -5, 2**31 - 1, 2**63 - 1, -(2**63))


class _Graph:
    """A graph in the making."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.inputs: list[onnx.ValueInfoProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.nodes: list[onnx.NodeProto] = []

    def given(self, rank: int, kind: int = TensorProto.FLOAT) -> str:
        """An input with sizes that are numbers, names that others have, or names of its own."""
        name = f"x{len(self.inputs)}"
        sizes = [
            self.choose.choice(("a", "b", "c", f"{name}_{axis}", self.choose.randint(1, 4)))
            for axis in range(rank)
        ]
        return self.declared(sizes, kind)

    def declared(self, sizes: Sequence[int | str], kind: int = TensorProto.FLOAT) -> str:
        """An input with these sizes."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, kind, sizes))
        return name

    def known(self, values: object) -> str:
        """A constant of whole numbers."""
        name = f"k{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def numbers(self, count: int, least: int, most: int) -> str:
        """A constant of random numbers."""
        return self.known([self.choose.randint(least, most) for _ in range(count)])

    def add(self, operator: str, inputs: Sequence[str], outputs: int = 1, **more: Any) -> str:
        """A node; returns its first output."""
        names = [f"{operator}{len(self.nodes)}_{place}" for place in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, **more))
        return names[0]

    def model(self) -> onnx.ModelProto:
        """The model, whose outputs are those of its last node."""
        outputs = [helper.make_empty_tensor_value_info(each) for each in self.nodes[-1].output]
        graph = helper.make_graph(self.nodes, "g", self.inputs, outputs, self.initializers)
        opset = helper.make_opsetid("", 23)
        return helper.make_model(graph, opset_imports=[opset], ir_version=11)


def _split(graph: _Graph, rank: int) -> None:
    count, axis = graph.choose.randint(2, 3), graph.choose.randrange(rank)
    if graph.choose.random() < 0.3:
        graph.add("Split", [graph.given(rank)], count, axis=axis, num_outputs=count)
    else:
        graph.add("Split", [graph.given(rank), graph.numbers(count, 0, 3)], count, axis=axis)


def _reshape(graph: _Graph, rank: int) -> None:
    sizes = [graph.choose.choice((0, 1, 2, 3, 4, -1)) for _ in range(graph.choose.randint(1, 4))]
    allowed = graph.choose.randrange(2)
    graph.add("Reshape", [graph.given(rank), graph.known(sizes)], allowzero=allowed)


def _computed_shape(graph: _Graph, rank: int) -> None:
    """A reshape or an expansion to sizes that are computed."""
    source = graph.given(rank)
    first = graph.add("Shape", [graph.given(rank)], start=0, end=1)
    rest = graph.add("Shape", [source], start=graph.choose.randrange(rank))
    moved = graph.add("Add", [first, graph.numbers(1, -4, 2)])
    lead = graph.known([graph.choose.choice((1, -1, 2))])
    shape = graph.add("Concat", [lead, moved, rest], axis=0)
    graph.add(graph.choose.choice(("Reshape", "Expand")), [source, shape])


def _slice(graph: _Graph, rank: int) -> None:
    axes = graph.choose.sample(range(rank), graph.choose.randint(1, rank))
    starts, ends = ([graph.choose.choice(_FAR) for _ in axes] for _ in range(2))
    steps = [graph.choose.choice((1, *filter(None, _FAR))) for _ in axes]
    parameters = [graph.known(each) for each in (starts, ends, axes, steps)]
    graph.add("Slice", [graph.given(rank), *parameters])


def _broadcast(graph: _Graph, rank: int) -> None:
    operator = graph.choose.choice(("Add", "PRelu", "MatMul", "Expand"))
    if operator == "Expand":
        graph.add("Expand", [graph.given(rank), graph.numbers(graph.choose.randint(1, 4), 0, 3)])
        return
    made = graph.add(operator, [graph.given(rank), graph.given(graph.choose.randint(1, 3))])
    if graph.choose.random() < 0.5:
        graph.add("Mul", [made, graph.given(rank)])


def _concat(graph: _Graph, rank: int) -> None:
    pieces = [graph.given(rank), graph.given(rank)]
    graph.add("Concat", pieces, axis=graph.choose.randrange(-rank, rank))


def _pad(graph: _Graph, rank: int) -> None:
    mode = graph.choose.choice(("constant", "edge", "reflect", "wrap"))
    graph.add("Pad", [graph.given(rank), graph.numbers(2 * rank, -1, 3)], mode=mode)


def _tile(graph: _Graph, rank: int) -> None:
    graph.add("Tile", [graph.given(rank), graph.numbers(rank + (rank == 3), 0, 3)])


def _gather(graph: _Graph, rank: int) -> None:
    operator = graph.choose.choice(("Gather", "GatherElements", "GatherND"))
    indices = rank if operator == "GatherElements" else graph.choose.randint(1, 3)
    given = graph.given(indices, TensorProto.INT64)
    more: Mapping[str, int] = {"axis": graph.choose.randrange(-rank, rank)}
    if operator == "GatherND":
        more = {"batch_dims": graph.choose.choice((0, 0, 1))}
    graph.add(operator, [graph.given(rank), given], **more)


def _axes(graph: _Graph, rank: int) -> None:
    operator = graph.choose.choice(("Squeeze", "Unsqueeze", "ReduceSum", "ReduceMax"))
    axes = graph.known(graph.choose.sample(range(-rank, rank), graph.choose.randint(1, rank)))
    graph.add(operator, [graph.given(rank), axes])


def _one_hot(graph: _Graph, rank: int) -> None:
    values = graph.declared([graph.choose.choice((2, 2, 3, 1, "w"))])
    axis = graph.choose.randint(-1, rank)
    indices = graph.given(rank, TensorProto.INT64)
    graph.add("OneHot", [indices, graph.numbers(1, 0, 4), values], axis=axis)


def _trilu(graph: _Graph, rank: int) -> None:
    diagonal = graph.known(graph.choose.choice(_FAR))
    graph.add("Trilu", [graph.given(rank + 1), diagonal], upper=graph.choose.randrange(2))


def _recurrent(graph: _Graph, _rank: int) -> None:
    operator = graph.choose.choice(("LSTM", "GRU"))
    gates = {"LSTM": 8, "GRU": 6}[operator]
    source = graph.declared([graph.choose.choice(("s", 2)), graph.choose.choice(("b", 2)), 3])
    weights = [graph.declared([1, gates, 3]), graph.declared([1, gates, 2])]
    lengths = graph.declared([graph.choose.choice(("b", "l", 2))], TensorProto.INT32)
    state = graph.declared([1, graph.choose.choice(("b", "q")), graph.choose.choice((2, "h"))])
    graph.add(operator, [source, *weights, "", lengths, state], 2, hidden_size=2)


def _blocks(graph: _Graph, _rank: int) -> None:
    sizes = [graph.choose.choice(pair) for pair in ((1, "a"), (4, "b"), (2, "c"), (2, "d"))]
    operator = graph.choose.choice(("DepthToSpace", "SpaceToDepth"))
    graph.add(operator, [graph.declared(sizes)], blocksize=2)


def _normalization(graph: _Graph, rank: int) -> None:
    operator = graph.choose.choice(("RMSNormalization", "InstanceNormalization", "Gemm"))
    if operator == "RMSNormalization":
        graph.add(operator, [graph.given(rank), graph.given(1)])
    elif operator == "Gemm":
        graph.add(operator, [graph.given(2), graph.given(2), graph.given(1)])
    else:
        graph.add(operator, [graph.given(3), graph.given(1), graph.given(1)])


_NODES: Sequence[Callable[[_Graph, int], None]] = (
    _split, _reshape, _computed_shape, _slice, _broadcast, _concat, _pad, _tile, _gather, _axes,
    _one_hot, _trilu, _recurrent, _blocks, _normalization,
)  # fmt: skip


def attack_sizes(seed: int) -> str | None:
    """What is wrong with machine code for the seed's sizes; None where nothing is."""
    graph = _Graph(seed)
    graph.choose.choice(_NODES)(graph, graph.choose.randint(1, 3))
    model = graph.model()
    try:
        engine = _session(model, "cpu")
    except OrtpkgError:
        return None
    with engine, _session(model, "llvm", "cpu") as compiled:
        for run in range(_RUNS):
            feeds = _feeds(graph, np.random.default_rng(seed * _RUNS + run))
            problem = _problem(compiled, engine, feeds)
            if problem is not None:
                shapes = {name: array.shape for name, array in feeds.items()}
                return f"{problem} for {shapes}\n{onnx.printer.to_text(model)[:_MOST_TEXT]}"
    return None


def _session(model: onnx.ModelProto, *providers: str) -> InferenceSession:
    options = SessionOptions()
    options.log_severity_level = 4
    if "llvm" in providers:
        options.add_session_config_entry(CHECK_ENTRY, "1")
        # a run that the code does not take is an error then, and no run of the numpy engine
        options.add_session_config_entry(STANDBY_ENTRY, "0")
    return InferenceSession(model.SerializeToString(), options, providers=list(providers))


def _feeds(graph: _Graph, generator: np.random.Generator) -> dict[str, Array]:
    sizes: dict[str, int] = {}
    feeds: dict[str, Array] = {}
    for each in graph.inputs:
        shape = [
            size.dim_value or sizes.setdefault(size.dim_param, int(generator.integers(0, 6)))
            for size in each.type.tensor_type.shape.dim
        ]
        kind = each.type.tensor_type.elem_type
        if kind == TensorProto.FLOAT:
            feeds[each.name] = generator.standard_normal(shape).astype(np.float32)
        else:
            dtype = helper.tensor_dtype_to_np_dtype(kind)
            feeds[each.name] = generator.integers(-2, 4, shape).astype(dtype)
    return feeds


def _problem(
    compiled: InferenceSession, engine: InferenceSession, feeds: Mapping[str, Array]
) -> str | None:
    try:
        wanted = engine.run(None, dict(feeds))
    except OrtpkgError as error:
        return _problem_of_unfit(compiled, feeds, error)
    try:
        made = compiled.run(None, dict(feeds))
    except OrtpkgError:
        return None
    for one, other in zip(made, wanted, strict=True):
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            return f"{one.dtype} {one.shape} instead of {other.dtype} {other.shape}"
        if not np.allclose(one, other, rtol=1e-4, atol=1e-4, equal_nan=True):
            return f"{one} instead of {other}"
    return None


def _problem_of_unfit(
    compiled: InferenceSession, feeds: Mapping[str, Array], error: OrtpkgError
) -> str | None:
    try:
        made = compiled.run(None, dict(feeds))
    except OrtpkgError:
        return None
    return f"a result of {[each.shape for each in made]} instead of the error {error}"
