"""run: the package's samples, the caller's inputs, and what is said when either is wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ortpkg.api.model_package import ModelPackage
from ortpkg.foundations.errors import ModelError, UnknownComponentError
from ortpkg.runtime.session.placement import EpPlacement, Placement
from tests.cli.conftest import DIGITS, RunCommand
from tests.npz import arrays_in

pytestmark = pytest.mark.usefixtures("warm_processes")

MakeModel = Callable[..., Path]
TINYCHAR = DIGITS.with_name("tinychar.ortpackage")


@pytest.mark.parametrize("backend", ["auto", "embedded", "onnxruntime"])
def test_samples_run_without_any_option_and_nearly_all_are_right(
    ortpkg: RunCommand, backend: str
) -> None:
    done = ortpkg("run", DIGITS, "--backend", backend)
    assert done.code == 0
    assert "predicted  true" in done.out
    assert "357 of 360 right (99.2 %); outputs match what the package expects" in done.out
    assert "classifier: variant cpu-fp32 on CPUExecutionProvider" in done.err


def test_samples_of_a_model_that_is_no_classifier_have_no_columns_of_classes(
    ortpkg: RunCommand, few_digits: Path, tmp_path: Path
) -> None:
    package = tmp_path / "digits.ortpackage"
    shutil.copytree(few_digits, package)
    document = package / "samples" / "samples.json"
    samples = json.loads(document.read_text())
    for sample_set in samples["samples"]:
        sample_set.pop("labels", None)
        sample_set.pop("display", None)
    document.write_text(json.dumps(samples))
    done = ortpkg("run", package, "--no-verify")
    assert done.code == 0, done.err
    headings = next(line for line in done.out.splitlines() if line.startswith("sample "))
    assert headings.split() == ["sample", "output", "as", "expected", "latency"]


def test_samples_as_json(ortpkg: RunCommand) -> None:
    (report,) = ortpkg("run", DIGITS, "--json", "--variant", "cpu-int8").json["samples"]
    assert (report["count"], report["matches"]) == (360, True)
    assert report["right"] / report["labelled"] >= 0.97
    assert len(report["results"]) == 360


def test_outputs_that_differ_from_what_the_package_expects_are_a_finding(
    ortpkg: RunCommand, few_digits: Path, tmp_path: Path
) -> None:
    package = Path(shutil.copytree(few_digits, tmp_path / "digits.ortpackage"))
    (package / "digests.json").unlink()
    expected = arrays_in(package / "samples" / "held_out_outputs.npz")["logits"]
    expected[5, 3] += 1
    np.savez(package / "samples" / "held_out_outputs.npz", logits=expected)
    done = ortpkg("run", package)
    assert done.code == 1
    assert "OUTPUTS DO NOT MATCH" in done.out
    assert next(line.split() for line in done.out.splitlines() if " NO " in line)[0] == "5"


def test_a_picture_is_recognized(ortpkg: RunCommand, tmp_path: Path) -> None:
    scan = arrays_in(DIGITS / "samples" / "held_out_inputs.npz")["image"][3, 0]
    label = arrays_in(DIGITS / "samples" / "held_out_labels.npz")["labels"][3]
    Image.fromarray((scan * 255 / 16).astype(np.uint8)).save(tmp_path / "scan.png")
    done = ortpkg("run", DIGITS, "--input", f"image={tmp_path / 'scan.png'}")
    assert done.code == 0
    assert f"predicted: {label}" in done.out


def test_outputs_of_own_inputs_are_written(ortpkg: RunCommand, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 1, 8, 8), np.float32))
    done = ortpkg("run", DIGITS, "-i", tmp_path / "x.npy", "-o", tmp_path / "y.npz")
    assert done.code == 0
    assert arrays_in(tmp_path / "y.npz")["logits"].shape == (2, 10)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--input", "imge=wrong_rank.npy"], 2, "did you mean 'image'?"),
        (["--input", "image=missing.npy"], 2, "cannot read"),
        (["--input", "image=wrong_rank.npy"], 2, "'image'"),
        (["--input", "image=wrong_type.npy"], 2, "'image'"),
        (["--input", "image=evil.npy"], 2, "pickled Python objects"),
        (["--variant", "cpu-fp23"], 2, "did you mean 'cpu-fp32'?"),
        (["--variant", "cuda"], 3, "'CUDAExecutionProvider' is not available here"),
        (["--device", "npu"], 3, "DEVICE_NOT_PRESENT"),
        (
            ["--backend", "opnvino"],
            2,
            "there is no backend 'opnvino' (did you mean 'openvino'?); known are: auto, ",
        ),
        (
            ["--device", "gpuu"],
            2,
            "there is no device type 'gpuu' (did you mean 'gpu'?); known are: cpu, gpu, npu",
        ),
        (["--ep", "opnvino"], 2, "did you mean 'OpenVINOExecutionProvider'?"),
        (["--policy", "prefer-gpuu"], 2, "did you mean 'prefer-gpu'?"),
        (["--component", "clasifier"], 2, "did you mean 'classifier'?"),
        (
            ["--output", "missing/y.npz"],
            2,
            "there is no directory 'missing'",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_typed_error(
    ortpkg: RunCommand,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
    message: str,
    few_digits: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("wrong_rank.npy", np.zeros((8, 8), np.float32))
    np.save("wrong_type.npy", np.zeros((1, 1, 8, 8), np.int64))
    np.save("evil.npy", np.array([{}], dtype=object), allow_pickle=True)
    done = ortpkg("run", few_digits, *words)
    assert done.code == code, done.err
    assert message in done.err
    assert "Traceback" not in done.err


def test_a_package_without_samples_says_which_inputs_it_needs(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
    ortpkg("create", tmp_path / "p.ortpackage", "--cpu", model())
    done = ortpkg("run", tmp_path / "p.ortpackage")
    assert done.code == 2
    assert "carries no samples: give --input NAME=FILE for 'x'" in done.err


@pytest.mark.parametrize("backend", ["embedded", "onnxruntime"])
def test_a_model_that_asks_for_too_much_memory_fails_with_a_typed_error(
    ortpkg: RunCommand, tmp_path: Path, backend: str
) -> None:
    import onnx.parser

    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (int64[1] n) => (float[N] y) { y ='
        " ConstantOfShape(n) }"
    )
    onnx.save(onnx.parser.parse_model(text), tmp_path / "big.onnx")
    ortpkg("create", tmp_path / "p.ortpackage", "--cpu", tmp_path / "big.onnx")
    np.save(tmp_path / "n.npy", np.array([10**12]))
    done = ortpkg(
        "run", tmp_path / "p.ortpackage", "-i", f"n={tmp_path / 'n.npy'}", "--backend", backend
    )
    assert done.code == 5
    assert "asks for 4.0 TB" in done.err or "4000000000000" in done.err


def test_session_options_that_reach_beyond_the_package_need_trust(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
    package = tmp_path / "p.ortpackage"
    ortpkg("init", package, "--format", "metadata")
    option = "session.optimized_model_filepath=/tmp/written"
    ortpkg("add-variant", package, model(), "--ep", "cpu", "--session-option", option)
    np.save(tmp_path / "x.npy", np.ones((1, 3), np.float32))
    done = ortpkg("run", package, "-i", f"x={tmp_path / 'x.npy'}")
    assert done.code == 7
    assert "'session.optimized_model_filepath'" in done.err
    assert "pass --trust" in done.err


def test_two_components_run_as_a_pipeline(
    ortpkg: RunCommand, model: MakeModel, tmp_path: Path
) -> None:
    import onnx.parser

    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 3] y) => (float[N, 3] z) { z ='
        " Neg(y) }"
    )
    onnx.save(onnx.parser.parse_model(text), tmp_path / "neg.onnx")
    package = tmp_path / "p.ortpackage"
    ortpkg("init", package)
    ortpkg("add-variant", package, model(), "--component", "first", "--ep", "cpu")
    ortpkg("add-variant", package, tmp_path / "neg.onnx", "--component", "second", "--ep", "cpu")
    np.save(tmp_path / "x.npy", np.ones((1, 3), np.float32))
    done = ortpkg("run", package, "-i", f"x={tmp_path / 'x.npy'}", "-o", tmp_path / "o.npz")
    assert done.code == 0, done.err
    assert arrays_in(tmp_path / "o.npz")["z"].tolist() == [[-2, -2, -2]]


@pytest.mark.parametrize("compat", [None, "onnxruntime-1.31"])
def test_the_command_runs_what_the_interface_would(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch, compat: str | None
) -> None:
    """Several component models are a pipeline, but not to a release, by whose rules one is read."""
    from ortpkg.runtime.pipelines.pipeline_session import PipelineSession

    ran: list[list[str]] = []

    def note(self: PipelineSession, *_: object) -> list[object]:
        ran.append(list(self.sessions))
        raise ModelError("seen")

    monkeypatch.setattr(PipelineSession, "run", note)
    package = ModelPackage(TINYCHAR, compat=compat)
    words = ["run", TINYCHAR, *(() if compat is None else ("--compat", compat))]
    if compat is None:
        session = package.create_session()
        assert isinstance(session, PipelineSession)
        assert (ortpkg(*words).err.splitlines()[-1], ran) == (
            "error: seen",
            [list(session.sessions)],
        )
        return
    with pytest.raises(UnknownComponentError) as caught:
        package.create_session()
    assert (ortpkg(*words).err, ran) == (f"error: {caught.value}\n", [])


def test_a_variant_of_a_pipeline_is_refused_in_the_words_of_the_interface(
    ortpkg: RunCommand,
) -> None:
    with pytest.raises(UnknownComponentError) as caught:
        ModelPackage(TINYCHAR).choose(variant="cpu-fp32")

    done = ortpkg("run", TINYCHAR, "--variant", "cpu-fp32")

    assert (done.code, done.err) == (2, f"error: {caught.value}\n")


LOOP = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1] x, int64 n) => (float[1] y) {
        go = Constant <value = bool {1}> ()
        y = Loop (n, go, x) <body = b (int64 i, bool c, float[1] v) => (bool d, float[1] w) {
            d = Identity (c)
            w = Add (v, v)
        }>
    }
"""


@pytest.fixture
def endless(ortpkg: RunCommand, tmp_path: Path) -> list[object]:
    """``run`` with a package whose model loops 10^12 times."""
    import onnx.parser

    onnx.save(onnx.parser.parse_model(LOOP), tmp_path / "loop.onnx")
    ortpkg("create", tmp_path / "p.ortpackage", "--cpu", tmp_path / "loop.onnx")
    np.save(tmp_path / "x.npy", np.ones(1, np.float32))
    np.save(tmp_path / "n.npy", np.array(10**12))
    return [
        "run",
        tmp_path / "p.ortpackage",
        "-i",
        f"x={tmp_path / 'x.npy'}",
        "-i",
        f"n={tmp_path / 'n.npy'}",
    ]


@pytest.mark.parametrize("backend", ["embedded", "onnxruntime"])
def test_a_run_that_passes_its_timeout_is_ended(
    ortpkg: RunCommand, endless: list[object], backend: str
) -> None:
    start = time.perf_counter()
    done = ortpkg(*endless, "--backend", backend, "--timeout", "0.3")
    assert done.code == 5
    assert "time limit of 0.3 s" in done.err
    assert time.perf_counter() - start < 60


def test_a_run_that_passes_its_memory_limit_is_ended(ortpkg: RunCommand, tmp_path: Path) -> None:
    import onnx.parser

    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (int64[1] n) => (float[N] y) { y ='
        " ConstantOfShape(n) }"
    )
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    ortpkg("create", tmp_path / "p.ortpackage", "--cpu", tmp_path / "m.onnx")
    np.save(tmp_path / "n.npy", np.array([10**6]))
    words = ["run", tmp_path / "p.ortpackage", "-i", tmp_path / "n.npy", "--backend", "embedded"]
    assert ortpkg(*words, "--memory-limit", "100000000").code == 0
    done = ortpkg(*words, "--memory-limit", "1000000")
    assert done.code == 5
    assert "memory limit of 1 MB" in done.err


def test_the_timeout_holds_for_all_samples_together(ortpkg: RunCommand) -> None:
    done = ortpkg("run", DIGITS, "--backend", "embedded", "--timeout", "0.01")
    assert done.code == 5
    assert (
        "passed their time limit of 10 ms together" in done.err
        or "time limit of 10 ms\n" in done.err
    )


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("backend", ["embedded", "onnxruntime"])
def test_an_interrupt_ends_a_computation(endless: list[object], backend: str) -> None:
    words = [sys.executable, "-m", "ortpkg", *map(str, endless), "--backend", backend]
    running = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    assert running.stderr is not None
    said = running.stderr.readline()  # what runs where: from now on it runs
    time.sleep(0.3)
    running.send_signal(signal.SIGINT)
    _, rest = running.communicate(timeout=60)
    assert (running.returncode, (said + rest).splitlines()[-1]) == (130, "cancelled")
    assert "Traceback" not in rest


def test_outputs_of_the_samples_are_written(
    ortpkg: RunCommand, few_digits: Path, tmp_path: Path
) -> None:
    done = ortpkg("run", few_digits, "-o", tmp_path / "y.npz", "--backend", "embedded")
    assert done.code == 0
    assert f"wrote {tmp_path / 'y.npz'}" in done.err
    with (
        np.load(few_digits / "samples" / "held_out_outputs.npz") as samples,
        np.load(tmp_path / "y.npz") as written,
    ):
        assert written.files == ["logits"]
        np.testing.assert_allclose(written["logits"], samples["logits"], atol=1e-3)


def test_outputs_with_names_of_arguments_are_written(ortpkg: RunCommand, tmp_path: Path) -> None:
    import onnx.parser

    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1] x) => (float[1] file, float[1] allow_pickle) {
        file = Neg(x) allow_pickle = Abs(x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    ortpkg("create", tmp_path / "p.ortpackage", "--cpu", tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.array([-3], np.float32))
    done = ortpkg(
        "run", tmp_path / "p.ortpackage", "-i", tmp_path / "x.npy", "-o", tmp_path / "y.npz"
    )
    assert done.code == 0, done.err
    with np.load(tmp_path / "y.npz") as written:
        assert {name: array.tolist() for name, array in written.items()} == {
            "file": [3.0],
            "allow_pickle": [3.0],
        }


def test_texts_are_written_and_read_back(ortpkg: RunCommand, tmp_path: Path) -> None:
    import onnx.parser

    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (string[N] x) => (string[N] y) { y ='
        " Identity(x) }"
    )
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    ortpkg("create", tmp_path / "p.ortpackage", "--cpu", tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.array(["größe", ""]))
    words = ["run", tmp_path / "p.ortpackage", "-i", tmp_path / "x.npy", "-o", tmp_path / "y.npz"]
    done = ortpkg(*words, "--backend", "embedded")
    assert done.code == 0, done.err
    assert arrays_in(tmp_path / "y.npz")["y"].tolist() == ["größe", ""]


def test_what_ran_where_is_one_line(ortpkg: RunCommand, few_digits: Path) -> None:
    done = ortpkg("run", few_digits, "--backend", "embedded")
    (line,) = [line for line in done.err.splitlines() if " of 1 EPs: " in line]
    assert line.startswith("classifier: 1 of 1 EPs: CPUExecutionProvider (embedded")
    (ran,) = ortpkg("run", few_digits, "--backend", "embedded", "--json").json["ran"]
    assert ran["placement"]["offload_percent"] == 100
    (entry,) = ran["placement"]["entries"]
    assert (entry["ep"], entry["fallback"]) == ("CPUExecutionProvider", False)
    assert entry["nodes"] > 0


def test_what_is_asked_for_and_met_is_no_failure(ortpkg: RunCommand, few_digits: Path) -> None:
    words = ("--backend", "embedded", "--strict", "--min-offload", "100")
    assert ortpkg("run", few_digits, *words).code == 0


@pytest.mark.parametrize(
    ("words", "code"), [([], 0), (["--strict"], 1), (["--min-offload", "50"], 1)]
)
def test_an_ep_that_took_no_node_is_never_silent(
    ortpkg: RunCommand,
    few_digits: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
) -> None:
    idle = EpPlacement(
        ep_name="E",
        backend="b",
        device="GPU",
        node_count=0,
        weight_nbytes=0,
        reason="it knows no operator",
    )
    cpu = EpPlacement(
        ep_name="C",
        backend="embedded",
        device="CPU",
        node_count=7,
        weight_nbytes=0,
        is_fallback=True,
    )
    monkeypatch.setattr(
        "ortpkg.runtime.session.inference_session.InferenceSession.get_placement",
        lambda _: Placement(entries=(idle, cpu)),
    )
    done = ortpkg("run", few_digits, "--backend", "embedded", "--quiet", *words)
    assert done.code == code
    assert "warning: classifier: E (b) took no node: it knows no operator" in done.err
    assert "warning: classifier: 7 of 7 nodes fell back to C (embedded, CPU)" in done.err
    assert ("0.0 % of the nodes run where they were meant to" in done.err) is (
        "--min-offload" in words
    )
    assert ortpkg("run", few_digits, "--backend", "embedded", "--json", *words).json[
        "as_asked"
    ] is (code == 0)


@pytest.mark.parametrize("command", ["run", "select"])
def test_an_empty_package_says_that_it_is_empty_and_what_fills_it(
    ortpkg: RunCommand, tmp_path: Path, command: str
) -> None:
    package = tmp_path / "p.ortpackage"
    ortpkg("init", package)
    done = ortpkg(command, package)
    assert done.code == 3
    assert (
        f"package 'p' is empty: it has no component model; `ortpkg add-variant {package} MODEL`"
        " adds one" in done.err
    )
    assert ortpkg(command, package, "--json").json["error"]["exit_code"] == 3


def test_a_damaged_sample_file_is_the_package_s_fault(ortpkg: RunCommand, tmp_path: Path) -> None:
    package = tmp_path / "digits.ortpackage"
    shutil.copytree(DIGITS, package)
    (package / "digests.json").unlink()
    file = package / "samples" / "held_out_inputs.npz"
    file.write_bytes(file.read_bytes()[:1000])
    done = ortpkg("run", package)
    assert done.code == 4
    assert "held_out_inputs.npz" in done.err


@pytest.mark.parametrize("entry", ["best_variant", "create_session"])
def test_a_failure_of_ours_is_no_success(
    ortpkg: RunCommand, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ModelError("broken")

    owner = (
        "model_package.ModelPackage" if entry == "best_variant" else "model_variant.ModelVariant"
    )
    monkeypatch.setattr(f"ortpkg.api.{owner}.{entry}", fail)
    done = ortpkg("run", DIGITS)
    assert (done.code, done.err) == (5, "error: broken\n")
