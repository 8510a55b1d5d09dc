"""Contexts of machine code as anyone meets them, through sessions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from ortpkg.compiler import compiler
from ortpkg.compiler.machine_code.abi import ABI_VERSION, COMPILER_VERSION
from ortpkg.compiler.machine_code.cpu_targets import FULL_PRECISION, target_named
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.foundations.errors import CompileError, EpContextError, StatusCode
from ortpkg.runtime.ep_context.context_file_writing import write_context_file
from ortpkg.runtime.ep_context.ep_context_file import Part, open_context_file
from ortpkg.runtime.providers.llvm.llvm_execution_provider import LLVMExecutionProvider
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import GraphOptimizationLevel, SessionOptions
from tests.ep_context.conftest import EXPECTED, X


def session_of(model: Path | bytes, options: SessionOptions | None = None) -> InferenceSession:
    return InferenceSession(model, options or SessionOptions(), providers=["llvm"])


def compiled(
    model: Path, level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
) -> Path:
    options = SessionOptions()
    options.graph_optimization_level = level
    options.add_session_config_entry("ep.context_enable", "1")
    session_of(model, options).close()
    return model.with_name(f"{model.stem}_ctx.onnx")


def saved(folder: Path, text: str, **weights: np.ndarray) -> Path:
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in weights.items()
    )
    onnx.save(proto, folder / "net.onnx")
    return folder / "net.onnx"


def binary_of(context: Path) -> Path:
    return context.with_name(f"{context.stem.removesuffix('_ctx')}_llvm.bin")


def rewritten(context: Path, change: Callable[[dict[str, Part]], Any]) -> None:
    """Change the binary's parts and write right digests, as an attacker would."""
    file = open_context_file(binary_of(context), ep_name=LLVM_EP)
    entries = []
    for name in file.names:
        entry = file.entry(name)
        parts: dict[str, Part] = {key: bytes(part) for key, part in entry.parts.items()}
        change(parts)
        entries.append(replace(entry, parts=parts))
    write_context_file(binary_of(context), LLVM_EP, entries)


@pytest.mark.requirement("E36")
@pytest.mark.parametrize(
    "level", [GraphOptimizationLevel.ORT_DISABLE_ALL, GraphOptimizationLevel.ORT_ENABLE_ALL]
)
def test_a_session_from_a_context_computes_the_same(
    model: Path, level: GraphOptimizationLevel
) -> None:
    with session_of(model) as session:
        expected = session.run(None, {"x": X})[0]
    np.testing.assert_allclose(expected, EXPECTED, rtol=1e-5)
    context = compiled(model, level)
    assert [node.op_type for node in onnx.load(context).graph.node] == ["EPContext"]
    model.unlink()
    with session_of(context) as session:
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], expected)


def test_nothing_is_compiled_again_where_a_context_is_loaded(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = compiled(model)

    def fail(*_arguments: object) -> None:
        raise AssertionError("the partition is compiled again")

    monkeypatch.setattr(compiler.Compiler, "compile", fail)
    session_of(context).close()
    with pytest.raises(CompileError, match="compiled again"):
        session_of(model)


def test_weights_lie_in_the_file_where_they_can_be_mapped(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[1, 1024] x) => (float[1, 1024] y) { y = Add(x, w) }"""
    weights = np.random.default_rng(7).random(1024, np.float32)
    context = compiled(saved(tmp_path, text, w=weights))
    offset = binary_of(context).read_bytes().find(weights.tobytes())
    assert offset > 0
    assert offset % 4096 == 0


def constant_of(parts: dict[str, Part]) -> str:
    """Name of the part with the partition's largest constant."""
    constants = parts.keys() - {"program", "code"}
    return max(constants, key=lambda name: len(parts[name]))


@pytest.mark.requirement("E40")
@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda parts: parts.pop("program"), "no part 'program'"),
        (lambda parts: parts.pop("code"), "no part 'code'"),
        (lambda parts: parts.pop(constant_of(parts)), "no part"),
        (lambda parts: parts.update(program=b"\xff\xff\xff"), "program"),
        (lambda parts: parts.update(program=b"[" * 5000), "program"),
        (lambda parts: parts.update(code=b"\x00"), "1 byte"),
        (lambda parts: parts.update({constant_of(parts): b"\x00" * 7}), "7 bytes"),
    ],
    ids=["no program", "no code", "no weights", "junk", "deep", "short code", "short weights"],
)
def test_a_forged_context_is_an_invalid_graph(
    model: Path, change: Callable[[dict[str, Part]], Any], word: str
) -> None:
    context = compiled(model)
    rewritten(context, change)
    with pytest.raises(EpContextError, match=word) as caught:
        session_of(context)
    assert caught.value.code is StatusCode.INVALID_GRAPH


@pytest.mark.requirement("E40")
@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("sdk_version", "machine code ABI 0", "SDK version was 'machine code ABI 0'"),
        ("options", {"target": "pdp11", "compiler": str(COMPILER_VERSION)}, "was 'pdp11'"),
    ],
)
def test_a_stale_context_is_refused(model: Path, field: str, value: Any, word: str) -> None:
    context = compiled(model)
    file = open_context_file(binary_of(context), ep_name=LLVM_EP)
    entries = [file.entry(name) for name in file.names]
    changed = [
        replace(entry, descriptor=replace(entry.descriptor, **{field: value})) for entry in entries
    ]
    write_context_file(binary_of(context), LLVM_EP, changed)
    with pytest.raises(EpContextError, match=word):
        session_of(context)


def test_nodes_that_it_cannot_keep_stay_with_others(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[64, 1024] x, float[2] u) => (float[64, 1024] y, float[2] r)
    {
        y = Exp(x)
        s = RandomUniformLike(u)
        r = Mul(s, u)
    }"""
    context = compiled(saved(tmp_path, text))
    left = [node.op_type for node in onnx.load(context).graph.node]
    assert sorted(left) == ["EPContext", "RandomUniformLike"]
    feeds = {"x": np.ones((64, 1024), np.float32), "u": np.zeros(2, np.float32)}
    y, r = session_of(context).run(None, feeds)
    np.testing.assert_allclose(y, np.exp(feeds["x"]), rtol=1e-6)
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


def test_the_descriptor_names_what_matters_and_nothing_else() -> None:
    provider = LLVMExecutionProvider(options={"target": "linux-x86_64_v3"})
    descriptor = provider.describe_environment()
    assert (descriptor.ep, descriptor.sdk_version, descriptor.device) == (
        LLVM_EP,
        f"machine code ABI {ABI_VERSION}",
        "CPU",
    )
    assert descriptor.architecture == target_named("linux-x86_64_v3").architecture
    assert descriptor.options == {
        "target": "linux-x86_64_v3",
        "compiler": str(COMPILER_VERSION),
        "extras": "",
        "precision": FULL_PRECISION,
        "check": "0",
        "winograd": "1",
    }


def test_an_isolated_session_runs_it_in_this_process(model: Path) -> None:
    with InferenceSession(model, providers=["llvm"], isolate=True) as session:
        np.testing.assert_allclose(session.run(None, {"x": X})[0], EXPECTED, rtol=1e-5)
