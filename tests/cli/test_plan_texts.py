"""plan --ir: what a model became on its way to machine code."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest

from ortpkg.compiler.machine_code.compilation_stages import SHOWN_STAGES, Stage
from ortpkg.compiler.machine_code.cpu_targets import host_target
from ortpkg.runtime.session.inference_session import InferenceSession
from ortpkg.runtime.session.options import SessionOptions
from tests.cli.conftest import RunCommand

pytestmark = pytest.mark.skipif(host_target() is None, reason="no code is compiled for this CPU")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """``y = softmax(tanh(x + x))``, in a batch whose name would steer a terminal."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    net (float[batch, 8] x) => (float[batch, 8] y) {
      sum = Add (x, x)
      active = Tanh (sum)
      y = Softmax (active)
    }"""
    made = onnx.parser.parse_model(text)
    for value in (made.graph.input[0], made.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "\x1b[31m\nbatch"
    made.graph.node[2].name = "soft\x1b]0;max"
    onnx.save(made, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_every_stage_is_shown_in_order(ortpkg: RunCommand, model: Path) -> None:
    done = ortpkg("plan", model, "--ep", "llvm", "--ir")
    assert done.code == 0, done.err
    headings = [
        "tensor IR, as nodes are lowered",
        "tensor IR after fusion",
        "tensor IR in the layouts that are compiled",
        "kernels, in the loop IR",
        "program",
    ]
    places = [done.out.index(f": {heading}\n") for heading in headings]
    assert places == sorted(places)
    lowered, fused, *_, program = (
        done.out[start:end] for start, end in zip(places, [*places[1:], None], strict=True)
    )
    assert "active: f32[" in lowered
    assert "active: f32[" not in fused
    assert "value: tanh((x[a0, a1] + x[a0, a1]))" in fused
    assert "step 0: kernel_0(" in program


def test_names_of_the_model_are_escaped(ortpkg: RunCommand, model: Path) -> None:
    done = ortpkg("plan", model, "--ep", "llvm", "--ir")
    assert "\x1b" not in done.out
    assert r"\x1b[31m\nbatch" in done.out
    assert r"# soft\x1b]0;max" in done.out


def test_one_kernel_is_shown_in_the_stages_that_are_named(ortpkg: RunCommand, model: Path) -> None:
    command = ("plan", model, "--ep", "llvm", "--kernel", "kernel_0")
    stages = ("--stage", "llvm", "--stage", "assembly", "--stage", "kernels")
    found = ortpkg(*command, *stages, "--json").json["ir"]
    assert [each["stage"] for each in found] == ["kernels", "llvm", "assembly"]
    loops, llvm, assembly = (each["texts"] for each in found)
    assert [each["name"] for each in (*loops, *llvm, *assembly)] == ["kernel_0"] * 3
    assert loops[0]["text"].startswith("kernel kernel_0(")
    assert "define void @kernel_0(" in llvm[0]["text"]
    assert "kernel_0:" in assembly[0]["text"]
    alone = ortpkg(*command)
    assert alone.out.splitlines()[0].endswith(": kernels, in the loop IR")
    assert "tensor IR" not in alone.out


def test_lines_are_limited_and_what_is_left_out_is_told(ortpkg: RunCommand, model: Path) -> None:
    done = ortpkg("plan", model, "--ep", "llvm", "--ir", "--stage", "tensor", "--lines", "2")
    assert len(done.out.splitlines()) == 3
    assert "more lines of tensor of" in done.err
    (found,) = ortpkg(
        "plan", model, "--ep", "llvm", "--ir", "--stage", "tensor", "--lines", "2", "--json"
    ).json["ir"]
    (text,) = found["texts"]
    assert len(text["text"].splitlines()) == 2
    assert text["left_out_lines"] > 5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--ep", "llvm", "--stage", "fusde"), "there is no stage 'fusde' (did you mean 'fused'?)"),
        (("--ep", "llvm", "--kernel", "kernel_9"), "--kernel: there is no kernel 'kernel_9'"),
        (("--ir",), "--ir: no partition was compiled to machine code here; take --ep llvm"),
    ],
)
def test_what_cannot_be_shown_is_told(
    ortpkg: RunCommand, model: Path, options: tuple[str, ...], said: str
) -> None:
    done = ortpkg("plan", model, *options)
    assert done.code == 2
    assert said in done.err


def test_of_a_context_the_steps_are_known(ortpkg: RunCommand, model: Path) -> None:
    context = model.with_name("net_ctx.onnx")
    options = SessionOptions()
    options.add_session_config_entry("ep.context_enable", "1")
    options.add_session_config_entry("ep.context_file_path", str(context))
    InferenceSession(model, options, providers=["llvm", "cpu"]).close()
    (found,) = ortpkg("plan", context, "--ep", "llvm", "--ir", "--json").json["ir"]
    assert found["stage"] == "steps"
    assert "step 0: kernel_0(" in found["texts"][0]["text"]


def test_a_session_that_was_not_told_to_keep_texts_has_none(model: Path) -> None:
    with InferenceSession(model, providers=["llvm", "cpu"]) as session:
        assert not session.get_compiled_texts()
        assert not session.get_compiled_texts((*SHOWN_STAGES, Stage.LLVM))


def test_without_a_compiler_it_is_told_what_to_install(
    ortpkg: RunCommand, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ortpkg.runtime.providers.llvm.llvm_execution_provider.has_compiler", lambda: False
    )
    done = ortpkg("plan", model, "--ep", "llvm", "--ir")
    assert done.code == 2
    assert (
        "--ir: no partition was compiled to machine code here; LLVMExecutionProvider left 1 Add,"
        " 1 Tanh, 1 Softmax: compiling needs llvmlite, which is"
        " not installed: pip install llvmlite, or install ortpkg with its extra llvm"
    ) in " ".join(done.err.split())


@pytest.fixture
def divided(tmp_path: Path) -> Path:
    """A model of which machine code is made in part; the rest is left for three reasons."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    net (float[n, 4096] x, bool c) => (int64[2, m] places, float[n, 4096] y, float[n, 4096] z) {
      [sum] a = Add (x, x)
      [found] places = NonZero (a)
      [choice] z = If (c) <
        then_branch = yes () => (float[n, 4096] t) { [inner] t = Neg (a) },
        else_branch = no () => (float[n, 4096] e) { [other] e = Abs (a) }
      >
      [rest] y = Mod <fmod = 1> (a, a)
    }"""
    made = onnx.parser.parse_model(text)
    made.graph.node[1].name = "found\x1b]0;it"
    onnx.save(made, tmp_path / "divided.onnx")
    return tmp_path / "divided.onnx"


def test_why_nodes_are_left_to_the_cpu_is_told_by_reason(ortpkg: RunCommand, divided: Path) -> None:
    done = ortpkg("plan", divided, "--ep", "llvm")
    assert done.code == 0, done.err
    said = done.out[done.out.index("Why nodes were left to others (--nodes names each)") :]
    rows = [line.split(maxsplit=2) for line in said.splitlines()[2:4]]
    assert [count for _, count, _ in rows] == ["2", "1"]
    text = " ".join(said.split())
    assert "its operator is not compiled" in text
    assert "remainders of floats are not compiled" in text
    assert "Nodes that were left to others" not in done.out


def test_with_nodes_each_has_its_reason(ortpkg: RunCommand, divided: Path) -> None:
    plan = ortpkg("plan", divided, "--ep", "llvm", "--json").json
    reasons = {
        node["name"]: node["left_by"].get("LLVMExecutionProvider")
        for partition in plan["partitions"]
        for node in partition["nodes"]
    }
    assert reasons == {
        "sum": None,
        "found\x1b]0;it": "its operator is not compiled",
        "choice": "its operator is not compiled",
        "rest": "remainders of floats are not compiled",
        "inner": None,
        "other": None,
    }

    shown = ortpkg("plan", divided, "--ep", "llvm", "--nodes").out
    assert "\x1b" not in shown
    listed = shown[shown.index("Nodes that were left to others") :].splitlines()[2:5]
    assert [line.split()[0] for line in listed][1:] == ["choice", "rest"]
    assert all("LLVM" in line or "llvm" in line for line in listed)


def test_who_runs_what_says_why_the_cpu_stands_in(divided: Path) -> None:
    with InferenceSession(divided, providers=["llvm", "cpu"]) as session:
        told = session.get_placement().describe()
    assert "in place of what was asked for (LLVMExecutionProvider left 1 NonZero, 1 If:" in told
