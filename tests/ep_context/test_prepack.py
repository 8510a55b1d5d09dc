"""PrepackExecutionProvider as anyone meets it, through sessions: own kernels, compiled ahead."""

from __future__ import annotations

import json
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from ortpkg.ep_context.context_file_writing import write_context_file
from ortpkg.ep_context.ep_context_descriptor import ContextDescriptor
from ortpkg.ep_context.ep_context_file import Part, open_context_file
from ortpkg.errors import (
    CancelledError,
    CompileError,
    EpContextError,
    LimitExceededError,
    RunError,
    StatusCode,
)
from ortpkg.graph.onnx_reader import load_model
from ortpkg.kernels import op_kernel, quantization
from ortpkg.providers import prepack_compatibility
from ortpkg.providers.execution_provider import FusedNode
from ortpkg.providers.prepack_execution_provider import PrepackExecutionProvider
from ortpkg.session import lent_engine
from ortpkg.session.inference_session import InferenceSession
from ortpkg.session.options import GraphOptimizationLevel, RunOptions, SessionOptions
from tests.ep_context.conftest import EXPECTED, X

NAME = "PrepackExecutionProvider"


def options_of(**entries: str) -> SessionOptions:
    options = SessionOptions()
    for key, value in entries.items():
        head, _, rest = key.partition("_")
        options.add_session_config_entry(f"{head}.{rest}", value)
    return options


def session_of(model: Path | bytes, options: SessionOptions | None = None) -> InferenceSession:
    return InferenceSession(model, options or SessionOptions(), providers=["prepack"])


def compiled(model: Path) -> Path:
    session_of(model, options_of(ep_context_enable="1")).close()
    return model.with_name(f"{model.stem}_ctx.onnx")


def saved(tmp_path: Path, text: str, **weights: np.ndarray) -> Path:
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in weights.items()
    )
    path = tmp_path / "net.onnx"
    onnx.save(proto, path)
    return path


def binary_of(context: Path) -> Path:
    return context.with_name(f"{context.stem.removesuffix('_ctx')}_prepack.bin")


def rewritten(context: Path, change: Callable[[dict[str, Part]], None]) -> None:
    """The binary with changed parts and right digests, as an attacker would write it."""
    file = open_context_file(binary_of(context), ep_name=NAME)
    entries = []
    for name in file.names:
        entry = file.entry(name)
        parts: dict[str, Part] = {key: bytes(part) for key, part in entry.parts.items()}
        change(parts)
        entries.append(replace(entry, parts=parts))
    write_context_file(binary_of(context), NAME, entries)


@pytest.mark.requirement("E36")
def test_a_session_from_a_context_computes_the_same(model: Path) -> None:
    expected = InferenceSession(model).run(None, {"x": X})[0]
    np.testing.assert_allclose(expected, EXPECTED, rtol=1e-5)
    context = compiled(model)
    assert [node.op_type for node in onnx.load(context).graph.node] == ["EPContext"]
    model.unlink()
    np.testing.assert_array_equal(session_of(context).run(None, {"x": X})[0], expected)


def test_constants_are_folded_even_where_the_engine_folds_nothing(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {3, 4}>
    { s = Add(a, b)  t = Mul(s, s)  y = Add(x, t) }"""
    path = saved(tmp_path, text)
    options = options_of(ep_context_enable="1")
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    session_of(path, options)
    file = open_context_file(tmp_path / "net_prepack.bin", ep_name=NAME)
    graph = onnx.load_from_string(bytes(file.entry(file.names[0]).parts["graph"])).graph
    assert [node.op_type for node in graph.node] == ["Add"]
    assert [tensor.name for tensor in graph.initializer] == ["t"]
    x = np.array([1, 1], np.float32)
    np.testing.assert_array_equal(
        session_of(tmp_path / "net_ctx.onnx").run(None, {"x": x})[0], [17, 37]
    )


#: A product with a bias and an activation, a normalization spelled out, and batch normalization
#: after a convolution.
FUSIBLE = """<ir_version: 10, opset_import: ["" : 21]>
g (float[2, 3, 8, 8] x) => (float[2, 4] y)
<int64[1] axis = {-1}, float two = {2}, float tiny = {0.00001}, float[4] scale = {1, 2, 3, 4},
 float[4] shift = {4, 3, 2, 1}, float[4] mean = {0.5, 0.25, 0, 1}, float[4] variance = {1, 2, 1, 2}>
{
    c = Conv<pads = [1, 1, 1, 1]>(x, filter)
    n = BatchNormalization(c, scale, shift, mean, variance)
    r = Relu(n)
    p = GlobalAveragePool(r)
    f = Flatten(p)
    m = MatMul(f, w)
    b = Add(m, shift)
    a = Tanh(b)
    u = ReduceMean(a, axis)
    d = Sub(a, u)
    q = Pow(d, two)
    v = ReduceMean(q, axis)
    e = Add(v, tiny)
    s = Sqrt(e)
    z = Div(d, s)
    t = Mul(z, scale)
    y = Add(t, shift)
}"""


def fusible_model(tmp_path: Path) -> Path:
    generator = np.random.default_rng(5)
    return saved(
        tmp_path,
        FUSIBLE,
        filter=generator.standard_normal((4, 3, 3, 3)).astype(np.float32),
        w=generator.standard_normal((4, 4)).astype(np.float32),
    )


def kept_graph(context: Path) -> onnx.GraphProto:
    """The graph of a context with one partition."""
    file = open_context_file(binary_of(context), ep_name=NAME)
    (name,) = file.names
    return onnx.load_from_string(bytes(file.entry(name).parts["graph"])).graph


@pytest.mark.requirement("E36")
@pytest.mark.parametrize(
    "level", [GraphOptimizationLevel.ORT_DISABLE_ALL, GraphOptimizationLevel.ORT_ENABLE_ALL]
)
def test_a_context_holds_what_a_session_at_the_highest_level_would_run(
    tmp_path: Path, level: GraphOptimizationLevel
) -> None:
    path = fusible_model(tmp_path)
    plain = SessionOptions()
    plain.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    x = np.random.default_rng(6).standard_normal((2, 3, 8, 8)).astype(np.float32)
    expected = InferenceSession(path, plain).run(None, {"x": x})[0]
    optimized = [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node]
    assert len(optimized) < len(onnx.load(path).graph.node) - 7

    options = options_of(ep_context_enable="1")
    options.graph_optimization_level = level
    session_of(path, options).close()
    context = tmp_path / "net_ctx.onnx"
    assert [node.op_type for node in kept_graph(context).node] == optimized
    np.testing.assert_array_equal(session_of(context).run(None, {"x": x})[0], expected)


def test_nothing_is_optimized_again_where_a_context_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fusible_model(tmp_path)
    context = compiled(path)

    def fail(*_arguments: object) -> None:
        raise AssertionError("the partition is optimized again")

    monkeypatch.setattr(lent_engine.SessionGraphEngine, "optimize", fail)
    session_of(context)
    with pytest.raises(CompileError, match="optimized again"):
        session_of(path)


def chain_model(tmp_path: Path) -> Path:
    steps = "  ".join(f"v{i + 1} = {'Sin' if i % 2 else 'Exp'}(v{i})" for i in range(7))
    return saved(
        tmp_path,
        f"""<ir_version: 10, opset_import: ["" : 21]>
    g (float[N] v0) => (float[N] v8) {{ {steps}  v8 = Cos(v7) }}""",
    )


def test_a_run_takes_no_memory_but_that_of_its_outputs(tmp_path: Path) -> None:
    session = session_of(compiled(chain_model(tmp_path)))
    x = np.linspace(-1, 1, 1 << 18, dtype=np.float32)
    for _ in range(2):  # the first run of a shape lays its memory out, the second takes it
        session.run(None, {"v0": x})
    tracemalloc.start()
    try:
        session.run(None, {"v0": x})
        _, peak_nbytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert x.nbytes <= peak_nbytes < 1.5 * x.nbytes


def test_a_closed_session_keeps_no_memory(tmp_path: Path) -> None:
    session = session_of(compiled(chain_model(tmp_path)))
    x = np.linspace(-1, 1, 1 << 18, dtype=np.float32)
    tracemalloc.start()
    try:
        for _ in range(3):
            session.run(None, {"v0": x})
        open_nbytes, _ = tracemalloc.get_traced_memory()
        session.close()
        closed_nbytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert open_nbytes >= x.nbytes
    assert closed_nbytes < x.nbytes / 4


def test_every_size_of_a_dynamic_dimension_is_right(tmp_path: Path) -> None:
    path = chain_model(tmp_path)
    session, plain = session_of(compiled(path)), InferenceSession(path)
    for size in (5, 1, 5, 300, 1, 0, 300):
        x = np.linspace(-1, 1, size, dtype=np.float32)
        np.testing.assert_array_equal(
            session.run(None, {"v0": x})[0], plain.run(None, {"v0": x})[0]
        )


@pytest.mark.parametrize("size", [1, 3, 1 << 40])
def test_shapes_that_a_context_lies_about_harm_nothing(tmp_path: Path, size: int) -> None:
    path = chain_model(tmp_path)
    context = compiled(path)

    def change(parts: dict[str, Part]) -> None:
        proto = onnx.load_from_string(bytes(parts["graph"]))
        for value in proto.graph.value_info:
            value.type.tensor_type.shape.dim[0].dim_value = size
        parts["graph"] = proto.SerializeToString()

    rewritten(context, change)
    session, x = session_of(context), np.linspace(-1, 1, 100, dtype=np.float32)
    if size == 1 << 40:
        with pytest.raises(LimitExceededError, match="memory limit"):
            session.run(None, {"v0": x})
        return
    expected = InferenceSession(path).run(None, {"v0": x})[0]
    for _ in range(3):
        np.testing.assert_array_equal(session.run(None, {"v0": x})[0], expected)


def integer_model(tmp_path: Path) -> Path:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (uint8[2, 64] x) => (int32[2, 32] y) { y = MatMulInteger(x, w) }"""
    return saved(
        tmp_path, text, w=np.arange(64 * 32, dtype=np.int32).astype(np.int8).reshape(64, 32)
    )


def test_what_a_kernel_lays_out_is_kept_and_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = integer_model(tmp_path)
    x = np.arange(128, dtype=np.uint8).reshape(2, 64)
    expected = InferenceSession(path).run(None, {"x": x})[0]
    context = compiled(path)

    def fail(*_arguments: object) -> None:
        raise AssertionError("the kernel lays its weights out again")

    monkeypatch.setattr(quantization, "integer_matrix", fail)
    monkeypatch.setattr(quantization, "bounds_of", fail)
    np.testing.assert_array_equal(session_of(context).run(None, {"x": x})[0], expected)


def test_weights_lie_in_the_file_where_they_can_be_mapped(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[1, 256] x) => (float[1, 256] y) { y = MatMul(x, w) }"""
    weights = np.random.default_rng(7).random((256, 256), np.float32)
    context = compiled(saved(tmp_path, text, w=weights))
    place = binary_of(context).read_bytes().find(weights.tobytes())
    assert place > 0
    assert place % 4096 == 0


def layout_of(parts: dict[str, Part]) -> str:
    """The part of the largest layout that a kernel made."""
    return max(
        (name for name in parts if name.startswith("packed:")), key=lambda name: len(parts[name])
    )


def stated(parts: dict[str, Part], element_type: str, shape: list[int]) -> bytes:
    """``layouts`` that states another type and shape of that one."""
    return json.dumps(
        {layout_of(parts).removeprefix("packed:"): {"type": element_type, "shape": shape}}
    ).encode()


@pytest.mark.requirement("E40")
@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda parts: parts.pop("graph"), "graph"),
        (lambda parts: parts.update(graph=b"\xff\xff\xff"), "not an ONNX model"),
        (lambda parts: parts.update(layouts=b"[" * 5000), "is not what"),
        (lambda parts: parts.update({layout_of(parts): b"\x00"}), "has 1 bytes"),
        (lambda parts: parts.update({"weight:w": b"\x00" * 7}), "has 7 bytes"),
        (lambda parts: parts.update({"weight:other": b"\x00"}), "is no input of the graph"),
        (lambda parts: parts.update(layouts=stated(parts, "STRING", [1])), "no plain type"),
        (lambda parts: parts.update(layouts=stated(parts, "FLOAT", [-1, 8])), "no plain type"),
        (
            lambda parts: parts.update(
                layouts=json.dumps({"0:gone": {"type": "FLOAT", "shape": [1]}}).encode()
            ),
            "gone",
        ),
    ],
)
def test_a_forged_context_is_an_invalid_graph(
    tmp_path: Path, change: Callable[[dict[str, Part]], None], word: str
) -> None:
    context = compiled(integer_model(tmp_path))
    rewritten(context, change)
    with pytest.raises(EpContextError, match=word) as caught:
        session_of(context)
    assert caught.value.code is StatusCode.INVALID_GRAPH


def test_a_context_with_another_signature_is_an_invalid_graph(tmp_path: Path) -> None:
    context = compiled(integer_model(tmp_path))

    def change(parts: dict[str, Part]) -> None:
        graph = onnx.load_from_string(bytes(parts["graph"]))
        graph.graph.input.append(onnx.helper.make_tensor_value_info("more", 1, [2]))
        parts["graph"] = graph.SerializeToString()

    rewritten(context, change)
    with pytest.raises(EpContextError, match=r"it has 2 inputs and 1 outputs, the node 1 and 1"):
        session_of(context)


def test_a_context_with_sub_graphs_is_an_invalid_graph(tmp_path: Path) -> None:
    context = compiled(integer_model(tmp_path))

    def change(parts: dict[str, Part]) -> None:
        other = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        g (uint8[2, 64] x, int8[64, 32] w) => (int32[2, 32] y) <bool c = {1}>
        { y = If(c) <then_branch = t () => (int32[2, 32] p) { p = MatMulInteger(x, w) },
                     else_branch = e () => (int32[2, 32] q) { q = MatMulInteger(x, w) }> }""")
        parts["graph"] = other.SerializeToString()

    rewritten(context, change)
    with pytest.raises(EpContextError, match="has sub-graphs"):
        session_of(context)


def test_it_needs_the_engine_of_a_session(tmp_path: Path) -> None:
    model = load_model(integer_model(tmp_path))
    fused = FusedNode(node=next(model.graph.nodes), body=model.graph)
    with pytest.raises(CompileError, match="the engine of a session"):
        PrepackExecutionProvider().compile_partition(fused)


def test_a_context_that_becomes_shorter_under_an_open_session_is_an_error_and_no_crash(
    tmp_path: Path,
) -> None:
    context = compiled(integer_model(tmp_path))
    session = session_of(context)
    with binary_of(context).open("r+b") as file:
        file.truncate(4096)
    with pytest.raises(EpContextError, match="became shorter"):
        session.run(None, {"x": np.zeros((2, 64), np.uint8)})


@pytest.mark.requirement("E40")
@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("sdk_version", "kernel layout 0", "SDK version was 'kernel layout 0'"),
        ("architecture", "pdp11", "architecture was 'pdp11'"),
    ],
)
def test_a_stale_context_is_refused(tmp_path: Path, field: str, value: Any, word: str) -> None:
    context = compiled(integer_model(tmp_path))
    file = open_context_file(binary_of(context), ep_name=NAME)
    entries = [file.entry(name) for name in file.names]
    changed = [
        replace(entry, descriptor=replace(entry.descriptor, **{field: value})) for entry in entries
    ]
    write_context_file(binary_of(context), NAME, changed)
    with pytest.raises(EpContextError, match=word):
        session_of(context)


def test_nodes_that_it_cannot_keep_stay_with_others(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (bool c, float[2] x, float[2] u) => (float[2] y, float[2] r)
    {
        y = If(c) <then_branch = t () => (float[2] p) { p = Exp(x) }, else_branch = e () => (float[2] q) { q = Neg(x) }>
        s = RandomUniformLike(u)
        r = Mul(s, u)
    }"""
    path = saved(tmp_path, text)
    context = compiled(path)
    left = [node.op_type for node in onnx.load(context).graph.node]
    assert sorted(left) == ["EPContext", "If", "RandomUniformLike"]
    feeds = {"c": np.array(True), "x": np.ones(2, np.float32), "u": np.zeros(2, np.float32)}
    y, r = session_of(context).run(None, feeds)
    np.testing.assert_allclose(y, np.exp([1, 1]), rtol=1e-6)
    np.testing.assert_array_equal(r, [0, 0])


def test_outputs_are_the_callers_own(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[2] x) => (float[1, 2] y, float[2, 1] z, float[2] w) <int64[2] a = {1, 2}, int64[2] b = {2, 1}>
    { y = Reshape(x, a)  z = Reshape(x, b)  w = Identity(x) }"""
    x = np.array([1, 2], np.float32)
    outputs = session_of(compiled(saved(tmp_path, text))).run(None, {"x": x})
    for number, array in enumerate(outputs):
        array += number + 1
    np.testing.assert_array_equal(x, [1, 2])
    assert [array.reshape(-1).tolist() for array in outputs] == [[2, 3], [3, 4], [4, 5]]


def test_a_partition_that_is_the_whole_model_divides_by_zero_in_silence(
    tmp_path: Path,
) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[2] x) => (float[2] y) { e = Exp(x)  r = Reciprocal(x)  y = Add(e, r) }"""
    with session_of(compiled(saved(tmp_path, text))) as session, warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(
            session.run(None, {"x": np.zeros(2, np.float32)})[0], [np.inf, np.inf]
        )


def test_limits_and_cancelling_reach_into_partitions(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (int64[1] n) => (float y) { a = ConstantOfShape(n)  b = Exp(a)  y = ReduceSum<keepdims=0>(b) }"""
    session = session_of(compiled(saved(tmp_path, text)))
    limited = RunOptions()
    limited.memory_limit_nbytes = 1 << 20
    with pytest.raises(LimitExceededError):
        session.run(None, {"n": np.array([1 << 20], np.int64)}, limited)
    ended = RunOptions()
    ended.terminate = True
    with pytest.raises(CancelledError):
        session.run(None, {"n": np.array([4], np.int64)}, ended)


def test_an_error_names_the_node_inside_the_partition(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[N] x, float[M] z) => (float[K] y) { e = Exp(x)  y = Add(e, z) }"""
    session = session_of(compiled(saved(tmp_path, text)))
    with pytest.raises(RunError, match="Add"):
        session.run(None, {"x": np.ones(2, np.float32), "z": np.ones(3, np.float32)})


def test_the_version_of_the_layout_is_the_kernels() -> None:
    assert prepack_compatibility.LAYOUT_VERSION == op_kernel.KERNEL_LAYOUT_VERSION


def test_the_descriptor_names_what_matters_and_nothing_else() -> None:
    found = PrepackExecutionProvider(options={"anything": "1"}).describe_environment()
    architecture = prepack_compatibility.machine_architecture()
    layout = f"kernel layout {op_kernel.KERNEL_LAYOUT_VERSION}"
    assert found == ContextDescriptor(
        ep=NAME, sdk_version=layout, device="CPU", architecture=architecture
    )


def test_an_isolated_session_runs_it_in_this_process(model: Path) -> None:
    session = InferenceSession(model, providers=["prepack"], isolate=True)
    np.testing.assert_allclose(session.run(None, {"x": X})[0], EXPECTED, rtol=1e-5)
