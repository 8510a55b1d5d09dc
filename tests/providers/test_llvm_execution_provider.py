"""LLVMExecutionProvider: models as machine code, made here or before, run with numpy alone."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from ortpkg.compiler import passes, tensor_stages
from ortpkg.compiler.machine_code import program_parts
from ortpkg.compiler.machine_code.cpu_targets import host_target, targets_of
from ortpkg.compiler.machine_code.loaded_program import LoadedProgram
from ortpkg.compiler.machine_code.program import Program
from ortpkg.compiler.tensor_ir.tensor_program import TensorProgram
from ortpkg.foundations.ep_names import LLVM_EP
from ortpkg.foundations.errors import (
    EpContextError,
    InvalidSessionOptionError,
    LimitExceededError,
    ModelFileError,
    OrtpkgError,
)
from ortpkg.graph.graph import Graph
from ortpkg.graph.graph_parts import ArrayInitializer
from ortpkg.graph.initializers import MappedInitializer
from ortpkg.graph.onnx_reader import load_model
from ortpkg.graph.types import ElementType, TensorType
from ortpkg.machine.machine_probe import probe
from ortpkg.runtime.providers.llvm.llvm_compatibility import host_extras
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import RunOptions, SessionOptions


def _multiplies_bfloat() -> bool:
    """Whether this machine's CPU has an instruction for it."""
    target = host_target()
    return target is not None and target.bfloat_extra in host_extras(target)


pytestmark = pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")

_MODEL = """<ir_version: 10, opset_import: ["" : 21]>
net (float[batch, 24] x) => (float[batch, 24] y, float[batch, 24] z)
<float[24, 24] w = {WEIGHTS}, float[24] b = {BIAS}> {
  product = MatMul (x, w)
  sum = Add (product, b)
  active = Tanh (sum)
  y = Add (active, x)
  z = Sigmoid (y)
}"""


def _model(path: Path) -> Path:
    numbers = np.random.default_rng(0).standard_normal(24 * 25) / 5
    weights, bias = (
        "{" + ", ".join(f"{each:.6f}" for each in part) + "}"
        for part in (numbers[: 24 * 24], numbers[24 * 24 :])
    )
    text = _MODEL.replace("{WEIGHTS}", weights).replace("{BIAS}", bias)
    onnx.save(onnx.parser.parse_model(text), path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return _model(tmp_path / "net.onnx")


def _input(batch: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(batch).standard_normal((batch, 24)).astype(np.float32)}


def _options(**entries: str) -> SessionOptions:
    options = SessionOptions()
    for key, value in entries.items():
        options.add_session_config_entry(key.replace("__", "."), value)
    return options


def _assert_alike(session: InferenceSession, model: Path, batch: int) -> None:
    expected = InferenceSession(model, providers=["cpu"]).run(None, _input(batch))
    for ours, theirs in zip(session.run(None, _input(batch)), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_size_that_another_part_of_the_model_computed_is_known(tmp_path: Path) -> None:
    """Between two compiled parts lies a node that nobody compiles."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
        net (float[batch, 1024] x) => (float[n, m, k] y)
        <int64[1] rest = {32}, int64[1] first = {0}, int64[1] one = {1}> {
            a = Exp(x)  s = Shape(a)  b = Slice(s, first, one)  two = Concat<axis = 0>(b, rest)
            wide = Concat<axis = 0>(two, rest)  h = Hardmax(a)
            r = Reshape(h, wide)  y = Tanh(r) }"""
    path = tmp_path / "cut.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    with InferenceSession(path, providers=["llvm", "cpu"]) as ours:
        left = [each for each in ours.get_plan().partitions if each.provider != LLVM_EP]
        assert [each.op_types for each in left] == [("Hardmax",)]
        for batch in (1, 3):
            x = np.random.default_rng(batch).standard_normal((batch, 1024)).astype(np.float32)
            (made,) = ours.run(None, {"x": x})
            wanted = np.tanh(np.eye(1024, dtype=np.float32)[x.argmax(axis=1)])
            np.testing.assert_allclose(made, wanted.reshape(batch, 32, 32), rtol=1e-6)


def test_a_size_that_enters_another_part_as_a_value_alone_is_read(tmp_path: Path) -> None:
    """Two sizes of free pictures, halved and doubled; nobody compiles Resize to sizes."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
        net (float[n, 8, h, w] x) => (float[n, 8, i, j] y) {
            a = Relu(x)  p = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (a)
            b = Tanh(p)  q = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (b)
            s = Shape <start = 2> (b)  r = Shape <end = 2> (q)  sizes = Concat <axis = 0> (r, s)
            u = Resize <mode = "linear"> (q, , , sizes)  v = Add(u, b)  c = Exp(v)  d = Tanh(c)
            t = Shape <start = 2> (a)  o = Shape <end = 2> (d)  all = Concat <axis = 0> (o, t)
            z = Resize <mode = "linear"> (d, , , all)  y = Add(z, a) }"""
    path = tmp_path / "pictures.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    with (
        InferenceSession(path, providers=["llvm", "cpu"]) as ours,
        InferenceSession(path, providers=["cpu"]) as other,
    ):
        parts = [each for each in ours.get_plan().partitions if each.provider == LLVM_EP]
        assert ["Concat" in each.op_types for each in parts].count(True) == 2
        for shape in ((1, 8, 12, 12), (2, 8, 13, 20)):
            x = np.random.default_rng(shape[2]).standard_normal(shape).astype(np.float32)
            (made,), (wanted,) = (session.run(None, {"x": x}) for session in (ours, other))
            np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-5)


def test_a_session_makes_the_stages_once_and_prints_no_program(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    fuse = passes.optimized

    def counted(program: TensorProgram, **options: bool) -> TensorProgram:
        made.append(program.name)
        return fuse(program, **options)

    monkeypatch.setattr(tensor_stages, "optimized", counted)
    monkeypatch.setattr(program_parts, "dump_program", lambda _program: pytest.fail("printed"))
    monkeypatch.setattr(program_parts, "load_program", lambda _data: pytest.fail("parsed"))
    with InferenceSession(model, providers=["llvm", "cpu"]) as ours:
        ours.run(None, _input(2))

    assert len(made) == 1


def test_stages_are_kept_for_the_very_graph_alone() -> None:
    def graph(value: float) -> Graph:
        text = f"""<ir_version: 10, opset_import: ["" : 21]>
            net (float[n] x) => (float[n] y) <float c = {{{value}}}> {{ y = Add(x, c) }}"""
        return load_model(onnx.parser.parse_model(text).SerializeToString()).graph

    one, other = graph(1), graph(2)
    key = tensor_stages.graph_key(one)
    assert key == tensor_stages.graph_key(one)
    assert key != tensor_stages.graph_key(other)
    one.set_type("x", TensorType(ElementType.FLOAT, ("m",)))
    assert key != tensor_stages.graph_key(one)


def _pieces(tmp_path: Path, width: int) -> list[tuple[str, tuple[str, ...]]]:
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
        net (float[2, {width}] x) => (float[2, {width}] y) {{
            a = Exp(x)  b = Neg(a)  h = Hardmax(b)  c = Tanh(h)  y = Softmax(c) }}"""
    path = tmp_path / "cut.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    with InferenceSession(path, providers=["llvm", "cpu"]) as ours:
        partitions = ours.get_plan().partitions
        reasons = {
            reason
            for each in partitions
            for said in each.refusals.values()
            for reason in said.values()
            if "microseconds" in reason
        }
        assert len(reasons) == (2 if width == 4 else 0)
        return sorted((each.provider, each.op_types) for each in partitions)


def test_pieces_of_a_model_that_a_call_would_cost_more_than_they_save_are_left(
    tmp_path: Path,
) -> None:
    everything = ("Exp", "Neg", "Hardmax", "Tanh", "Softmax")
    assert _pieces(tmp_path, 4) == [("CPUExecutionProvider", everything)]
    assert _pieces(tmp_path, 1 << 16) == [
        ("CPUExecutionProvider", ("Hardmax",)),
        (LLVM_EP, ("Exp", "Neg")),
        (LLVM_EP, ("Tanh", "Softmax")),
    ]


def test_a_model_that_is_compiled_as_a_whole_is_compiled_however_small(tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    text = (
        '<ir_version: 10, opset_import: ["" : 21]> net (float[2] x) => (float[2] y) { y = Exp(x) }'
    )
    onnx.save(onnx.parser.parse_model(text), path)
    with InferenceSession(path, providers=["llvm", "cpu"]) as ours:
        assert [each.provider for each in ours.get_plan().partitions] == [LLVM_EP]


@pytest.mark.parametrize("is_checked", ["0", "1"])
def test_every_batch_runs_on_one_compilation(model: Path, is_checked: str) -> None:
    options = _options(ortpkg__llvm_check=is_checked)
    with InferenceSession(model, options, providers=["llvm", "cpu"]) as session:
        first = session.get_placement().entries[0]
        assert (first.ep_name, first.node_count) == (LLVM_EP, 4)
        for batch in (0, 1, 2, 17, 64):
            _assert_alike(session, model, batch)


def test_the_entry_for_bounds_checks_compiles_them(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[Program] = []
    load = LoadedProgram.__init__

    def note(self: LoadedProgram, program: Program, *rest: Any) -> None:
        loaded.append(program)
        load(self, program, *rest)

    monkeypatch.setattr(LoadedProgram, "__init__", note)
    for value in ("0", "1"):
        options = _options(ortpkg__llvm_check=value)
        InferenceSession(model, options, providers=["llvm", "cpu"]).close()
    unchecked, checked = loaded
    assert (unchecked.is_checked, checked.is_checked) == (False, True)
    assert checked.code_nbytes > unchecked.code_nbytes


def test_sessions_of_any_number_of_threads_give_the_same_bits(model: Path) -> None:
    found = []
    for threads in (1, 2, 3):
        options = SessionOptions()
        options.intra_op_num_threads = threads
        with InferenceSession(model, options, providers=["llvm", "cpu"]) as session:
            found.append(session.run(None, _input(300)))
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


def test_runs_of_many_threads_go_side_by_side(model: Path) -> None:
    with InferenceSession(model, providers=["llvm", "cpu"]) as session:
        expected = session.run(None, _input(65))
        wrong: list[int] = []

        def run(number: int) -> None:
            for _ in range(20):
                made = session.run(None, _input(65))
                if not all(map(np.array_equal, made, expected)):
                    wrong.append(number)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert not wrong


def _context(model: Path, target: str | None = None) -> Path:
    """The model's context model, made for a target."""
    made = model.with_name(f"{target or 'host'}_ctx.onnx")
    options = _options(ep__context_enable="1", ep__context_file_path=str(made))
    provider = ("llvm", {"target": target} if target else {})
    InferenceSession(model, options, providers=[provider, "cpu"]).close()
    return made


def test_a_context_runs_where_no_compiler_is(model: Path) -> None:
    made = _context(model)
    np.savez(model.with_suffix(".npz"), x=_input(33)["x"])
    program = f"""
        import sys
        for absent in ("llvmlite", "onnxruntime", "openvino"):
            sys.modules[absent] = None
        import numpy as np
        from ortpkg.runtime.session.inference_session import InferenceSession
        session = InferenceSession({str(made)!r}, providers=["llvm", "cpu"])
        made = session.run(None, dict(np.load({str(model.with_suffix(".npz"))!r})))
        np.savez({str(model.with_name("made.npz"))!r}, *made)
        loaded = [name for name in sys.modules if name.startswith("ortpkg.compiler.")]
        assert all(name.startswith("ortpkg.compiler.machine_code") for name in loaded), loaded
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=120)
    expected = InferenceSession(model, providers=["cpu"]).run(None, _input(33))
    with np.load(model.with_name("made.npz")) as found:
        for place, each in enumerate(expected):
            np.testing.assert_allclose(found[f"arr_{place}"], each, rtol=1e-5, atol=1e-6)


def test_code_for_every_older_cpu_of_this_family_runs_here(model: Path) -> None:
    machine = probe()
    for target in targets_of(machine.hardware[0], machine.os):
        with InferenceSession(_context(model, target.name), providers=["llvm", "cpu"]) as session:
            _assert_alike(session, model, 19)


@pytest.mark.parametrize("target", ["linux-aarch64", "macos-arm64", "windows-x86_64_v3"])
def test_code_for_another_machine_is_refused_by_name(model: Path, target: str) -> None:
    reason = "the CPU lacks |it is for (macos|windows), and this is "
    said = rf"architecture was '{target}', here it is .*, where ({reason})"
    with pytest.raises(EpContextError, match=said):
        InferenceSession(_context(model, target), providers=["llvm", "cpu"])


def test_code_of_a_compiler_that_was_wrong_is_refused(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr("ortpkg.runtime.providers.llvm.llvm_execution_provider.COMPILER_VERSION", 2)
        made = _context(model)
    said = (
        r"its SDK version was 'compiler 2', here it is 'compiler 3 or newer: older code may write"
        r" past the end of a buffer'; compile the model anew"
    )
    with pytest.raises(EpContextError, match=said):
        InferenceSession(made, providers=["llvm", "cpu"])


def test_the_same_model_becomes_the_same_bytes(model: Path, tmp_path: Path) -> None:
    first = _context(model).read_bytes()
    again = tmp_path / "again"
    again.mkdir()
    other = _context(_model(again / "net.onnx"))
    binaries = [next(each.parent.glob("*.bin")).read_bytes() for each in (model, other)]
    assert binaries[0] == binaries[1]
    assert other.read_bytes() == first


def test_a_changed_byte_of_code_is_refused(model: Path) -> None:
    made = _context(model)
    binary = next(model.parent.glob("*.bin"))
    data = bytearray(binary.read_bytes())
    data[-1] ^= 1
    binary.write_bytes(data)
    with pytest.raises((EpContextError, ModelFileError)):
        InferenceSession(made, providers=["llvm", "cpu"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "linux-x86_64_v9"}, "there is no target 'linux-x86_64_v9'"),
        ({"tarket": "linux-x86_64_v3"}, "has no option 'tarket'"),
    ],
)
def test_wrong_options_are_told(model: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidSessionOptionError, match=said):
        InferenceSession(model, providers=[("llvm", options), "cpu"])


def test_a_time_limit_ends_generated_code(tmp_path: Path) -> None:
    body = "\n".join(f"v{number + 1} = MatMul (v{number}, w)" for number in range(60))
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    net (float[3000, 3000] v0, float[3000, 3000] w) => (float[3000, 3000] v60) {{ {body} }}"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "long.onnx")
    ones = np.ones((3000, 3000), np.float32)
    options = SessionOptions()
    with InferenceSession(tmp_path / "long.onnx", options, providers=["llvm", "cpu"]) as session:
        limits = RunOptions()
        limits.timeout_s = 0.5
        start = time.perf_counter()
        with pytest.raises(LimitExceededError):
            session.run(None, {"v0": ones, "w": ones}, limits)
        assert time.perf_counter() - start < 5


def test_shapes_that_do_not_fit_are_told(model: Path) -> None:
    with (
        InferenceSession(model, providers=["llvm", "cpu"]) as session,
        pytest.raises(OrtpkgError, match="x"),
    ):
        session.run(None, {"x": np.zeros((3, 25), np.float32)})


def _session_of_precision(model: Path, precision: str, **options: str) -> InferenceSession:
    own = {"precision": precision, **options}
    return InferenceSession(model, providers=["llvm", "cpu"], provider_options=[own, {}])


@pytest.mark.skipif(not _multiplies_bfloat(), reason="this CPU has no products of bfloat16")
def test_a_precision_of_bf16_rounds_what_products_multiply(model: Path) -> None:
    feed = _input(64)
    with _session_of_precision(model, "f32") as session:
        exact = session.run(None, feed)[0]
    with _session_of_precision(model, "bf16") as session:
        rounded = session.run(None, feed)[0]
    error = np.abs(exact - rounded).max() / np.abs(exact).max()
    assert 1e-5 < error < 1e-2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"precision": "int4"}, "has no precision 'int4'; it has f32, bf16"),
        (
            {"precision": "bf16", "target": "linux-x86_64_v3"},
            "products of bfloat16, and linux-x86_64_v3 has none",
        ),
    ],
)
def test_a_precision_without_code_is_refused(
    model: Path, options: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidSessionOptionError, match=said) as raised:
        _session_of_precision(model, **options)
    assert raised.value.key == "precision"


def test_a_cpu_without_products_of_bfloat16_is_refused_their_precision(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ortpkg.runtime.providers.llvm.llvm_options.host_extras", lambda target: ("avx512_vnni",)
    )
    with pytest.raises(
        InvalidSessionOptionError, match=r"bfloat16, and (this machine's CPU lacks|linux-)"
    ):
        _session_of_precision(model, "bf16")


def test_weights_that_are_packed_are_held_once(tmp_path: Path) -> None:
    weights = np.arange(64 * 48, dtype=np.float32).reshape(64, 48)
    graph = onnx.parser.parse_graph("g (float[8, 64] x) => (float[8, 48] y) { y = MatMul(x, w) }")
    graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    opset = onnx.helper.make_opsetid("", 20)
    path = tmp_path / "model.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    session = InferenceSession(path, providers=["llvm", "cpu"])
    gc.collect()
    kinds = (ArrayInitializer, MappedInitializer)
    left = [each for each in gc.get_objects() if isinstance(each, kinds) and each.name == "w"]
    # what is left says where the weights lie in the file, for runs that the code does not take
    assert all(isinstance(each, MappedInitializer) and each._array is None for each in left)
    x = np.ones((8, 64), np.float32)
    assert np.array_equal(session.run(None, {"x": x})[0], x @ weights)
