"""Contexts of the real OpenVINO and QNN, from ortpkg to onnxruntime and back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from tests.vendors.conftest import DIGITS, Loads, Ortpkg
from tests.vendors.plain_onnxruntime import plain_onnxruntime

OPENVINO, QNN = "OpenVINOExecutionProvider", "QNNExecutionProvider"
MODEL = DIGITS / "models/classifier/cpu-fp32/model.onnx"
FLOAT32 = {"load_config": '{"CPU": {"INFERENCE_PRECISION_HINT": "f32"}}'}
HTP = {"backend_type": "htp"}
_CPUINFO = Path("/proc/cpuinfo")
_is_intel = sys.platform == "linux" and "GenuineIntel" in _CPUINFO.read_text()
_is_emulated = sys.platform == "linux" and os.uname().machine == "x86_64"
#: Of the group's weights; float32 on the emulated HTP.
_WIDTH, _LAYERS = 512, 4
_SET_NBYTES = 4 * _LAYERS * _WIDTH * _WIDTH

pytestmark = [pytest.mark.vendors, pytest.mark.timeout(900)]
needs_intel = pytest.mark.skipif(
    not _is_intel, reason="onnxruntime-ep-openvino offers nothing on other CPUs"
)
needs_emulation = pytest.mark.skipif(
    not _is_emulated, reason="onnxruntime-qnn emulates only on Linux on x86-64"
)


@pytest.fixture
def group(tmp_path: Path) -> list[Path]:
    """Prefill and decode with one set of weights."""
    rng = np.random.default_rng(0)
    weights = [
        onnx.numpy_helper.from_array(
            (rng.standard_normal((_WIDTH, _WIDTH)) * 0.1).astype(np.float32), f"w{layer}"
        )
        for layer in range(_LAYERS)
    ]
    made = []
    for name, batch in (("prefill", 4), ("decode", 1)):
        steps = " ".join(f"x{n + 1} = MatMul(x{n}, w{n})" for n in range(_LAYERS))
        text = (
            f"g (float[{batch}, {_WIDTH}] x0) => (float[{batch}, {_WIDTH}] x{_LAYERS}) {{"
            f" {steps} }}"
        )
        model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {text}')
        model.graph.initializer.extend(weights)
        onnx.save(model, tmp_path / f"{name}.onnx")
        made.append(tmp_path / f"{name}.onnx")
    return made


def _difference(one: object, other: object) -> float:
    return float(np.abs(np.asarray(one) - np.asarray(other)).max())


@needs_intel
@pytest.mark.parametrize("embed", [(), ("--embed",)], ids=["file", "embedded"])
def test_what_ortpkg_compiles_for_onnxruntime_runs_in_plain_onnxruntime(
    package: Path, ortpkg: Ortpkg, loads: Loads, embed: tuple[str, ...]
) -> None:
    words = ("--ep", "openvino", "--backend", "openvino", "--variant", "cpu-fp32", "--name", "ctx")
    made = ortpkg("compile", package, *words, "--for", "onnxruntime", *embed)
    assert made.code == 0, made.err
    (model,) = (package / "models/classifier/ctx").glob("*.onnx")
    there = plain_onnxruntime(ep=OPENVINO, model=str(model), options=FLOAT32)
    plain = plain_onnxruntime(ep=OPENVINO, model=str(MODEL), options=FLOAT32)
    assert _difference(there["outputs"], plain["outputs"]) < 1e-5, there
    rated = plain_onnxruntime(ep=OPENVINO, model=str(model), options={}, rates=True)
    assert rated == {"rating": "EP_SUPPORTED_OPTIMAL"}
    here = ortpkg("run", package, "--variant", "ctx", "--backend", "openvino")
    assert "outputs match what the package expects" in here.err + here.out
    what = f"context by ortpkg --for onnxruntime, OpenVINO's package{', embedded' if embed else ''}"
    loads(what, "OpenVINO's wheel, by onnxruntime", "OPTIMAL; as the plain model")
    loads(what, "OpenVINO's package, by ortpkg", "OPTIMAL; as expected")


@needs_intel
@pytest.mark.parametrize("has_float32", [True, False], ids=["float32", "as-it-is"])
def test_what_onnxruntime_compiled_runs_in_openvinos_python_package(
    package: Path, tmp_path: Path, ortpkg: Ortpkg, loads: Loads, has_float32: bool
) -> None:
    context = tmp_path / "model_ctx.onnx"
    options = FLOAT32 if has_float32 else {}
    made = plain_onnxruntime(ep=OPENVINO, model=str(MODEL), options=options, output=str(context))
    assert made["compatibility"], made
    words = (
        "--component",
        "classifier",
        "--variant",
        "theirs",
        "--ep",
        "openvino",
        "--device",
        "cpu",
    )
    assert ortpkg("add-variant", package, context, *words).code == 0
    choice = ("select", package, "--backend", "openvino", "--explain")
    assert "NEEDS_TRUST" in ortpkg(*choice).out
    rated = ortpkg(*choice, "--trust")
    assert "'theirs' on OpenVINOExecutionProvider (openvino)" in rated.out
    assert "EP_SUPPORTED_OPTIMAL" in rated.out
    assert ortpkg("run", package, "--variant", "theirs", "--backend", "openvino").code == 7, (
        "it needs trust"
    )
    done = ortpkg("run", package, "--variant", "theirs", "--backend", "openvino", "--trust")
    assert "outputs match what the package expects" in done.err + done.out, done.err
    what = (
        "context by onnxruntime for"
        f" OpenVINO{', in float32' if has_float32 else ', as it is by default'}"
    )
    loads(what, "OpenVINO's package, by ortpkg", "OPTIMAL; as expected, in float32")


@needs_intel
def test_ortpkgs_own_container_is_not_for_onnxruntime_as_migrate_check_says(
    package: Path, ortpkg: Ortpkg, loads: Loads
) -> None:
    words = ("--ep", "openvino", "--backend", "openvino", "--variant", "cpu-fp32", "--name", "ctx")
    assert ortpkg("compile", package, *words).code == 0
    (model,) = (package / "models/classifier/ctx").glob("*.onnx")
    rated = plain_onnxruntime(ep=OPENVINO, model=str(model), options={}, rates=True)
    assert rated == {"rating": "EP_UNSUPPORTED"}
    assert "error" in plain_onnxruntime(ep=OPENVINO, model=str(model), options={})
    *_, newest = ortpkg("migrate-check", package, "--json").json["releases"]
    (reason,) = [
        each["reason"] for each in newest["never_selected"] if each["variant"] == "classifier/ctx"
    ]
    assert "OpenVINOExecutionProvider does not support what it was compiled for" in reason
    loads(
        "context by ortpkg in its own container",
        "OpenVINO's wheel, by onnxruntime",
        "UNSUPPORTED; refused",
    )


@needs_emulation
def test_a_context_for_onnxruntime_by_qnn_runs_in_plain_onnxruntime(
    package: Path, fixed_model: Path, ortpkg: Ortpkg, loads: Loads
) -> None:
    words = ("--component", "classifier", "--variant", "qnn", "--ep", "qnn", "--device", "npu")
    assert ortpkg("add-variant", package, fixed_model, *words).code == 0
    words = ("--ep", "qnn", "--variant", "qnn", "--name", "ctx", "--for", "onnxruntime")
    made = ortpkg("compile", package, *words, emulates="qnn")
    assert made.code == 0, made.err
    (model,) = (package / "models/classifier/ctx").glob("*.onnx")
    there = plain_onnxruntime(ep=QNN, model=str(model), options=HTP)
    plain = plain_onnxruntime(ep=QNN, model=str(fixed_model), options=HTP)
    assert _difference(there["outputs"], plain["outputs"]) < 1e-4, there
    for isolation in ((), ("--isolate",)):
        done = ortpkg("run", package, "--variant", "ctx", *isolation, emulates="qnn")
        assert "outputs match what the package expects" in done.err + done.out, done.err
    loads("context by ortpkg --for onnxruntime, QNN", "QNN, by onnxruntime", "as the plain model")
    loads(
        "context by ortpkg --for onnxruntime, QNN",
        "QNN, by ortpkg",
        "as expected, in this process and in a child",
    )


@needs_emulation
def test_qnn_stores_the_weights_of_a_group_once_and_its_emulation_loads_no_group(
    group: list[Path], tmp_path: Path, ortpkg: Ortpkg, loads: Loads
) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    names = ",".join(map(str, group))
    words = ("compile-models", "-e", "qnn", "--for", "onnxruntime")
    assert ortpkg(*words, group[0], "-o", alone, emulates="qnn").code == 0
    made = ortpkg(*words, names, "-o", together, emulates="qnn")
    assert made.code == 0, made.err
    (one,), (both,) = (
        [each.stat().st_size for each in folder.glob("*.bin")] for folder in (alone, together)
    )
    assert _SET_NBYTES < one < 1.1 * _SET_NBYTES
    assert both < 1.02 * one, "one set of weights for both models"
    loads(
        "2 models, one group, QNN --for onnxruntime",
        "on the disk",
        f"{both / _SET_NBYTES:.2f} sets of weights",
    )
    program = (
        "import ortpkg, sys; ortpkg.InferenceSession(sys.argv[1], providers=['qnn'],"
        " enable_fallback=False)"
    )
    environment = {
        **os.environ,
        "ORTPKG_EMULATED_DEVICES": "qnn",
        "ORTPKG_CACHE_DIR": str(tmp_path / "cache"),
    }
    command = [sys.executable, "-c", program, str(together / "decode_ctx.onnx")]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 1
    assert "in the child process that tried first: it was ended by SIGSEGV" in done.stderr
    loads(
        "2 models, one group, QNN --for onnxruntime",
        "QNN, by ortpkg",
        "libQnnHtp.so crashes in a child: an error",
    )


@needs_intel
def test_a_group_for_onnxruntimes_openvino_is_one_container(
    group: list[Path], tmp_path: Path, ortpkg: Ortpkg, loads: Loads
) -> None:
    names = ",".join(map(str, group))
    words = ("-e", "openvino", "--backend", "openvino", "--for", "onnxruntime")
    made = ortpkg("compile-models", *words, names, "-o", tmp_path / "out")
    assert made.code == 0, made.err
    (binary,) = (tmp_path / "out").glob("*.bin")
    for source in group:
        context = tmp_path / "out" / f"{source.stem}_ctx.onnx"
        there = plain_onnxruntime(ep=OPENVINO, model=str(context), options=FLOAT32)
        plain = plain_onnxruntime(ep=OPENVINO, model=str(source), options=FLOAT32)
        assert _difference(there["outputs"], plain["outputs"]) < 1e-4
    sets = binary.stat().st_size / _SET_NBYTES
    loads(
        "2 models, one group, OpenVINO --for onnxruntime",
        "OpenVINO's wheel",
        f"as plain; {sets:.2f} sets of weights",
    )
