"""QNN's real library: digits on its emulated Hexagon HTP, and contexts both ways."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.vendors.conftest import Loads, Ortpkg
from tests.vendors.plain_onnxruntime import plain_onnxruntime

QNN = "QNNExecutionProvider"
HTP = {"backend_type": "htp"}
_is_emulated = sys.platform == "linux" and os.uname().machine == "x86_64"

pytestmark = [
    pytest.mark.vendors,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not _is_emulated, reason="onnxruntime-qnn emulates only on Linux on x86-64"),
]


@pytest.fixture
def qnn_package(package: Path, fixed_model: Path, ortpkg: Ortpkg) -> Path:
    """The digits package with a variant for QNN's NPU."""
    words = ("--component", "classifier", "--variant", "qnn", "--ep", "qnn", "--device", "npu")
    done = ortpkg("add-variant", package, fixed_model, *words)
    assert done.code == 0, done.err
    return package


def _difference(one: object, other: object) -> float:
    return float(np.abs(np.asarray(one) - np.asarray(other)).max())


def test_devices_says_that_the_npu_is_emulated_and_offers_it_by_name_only(ortpkg: Ortpkg) -> None:
    silent = ortpkg("devices", "--json").json
    assert QNN not in {each["ep"] for each in silent["ep_devices"]}
    assert any("it emulates an NPU on the CPU" in note for note in silent["notes"])
    offered = [
        each
        for each in ortpkg("devices", "--json", emulates="qnn").json["ep_devices"]
        if each["ep"] == QNN
    ]
    assert [
        (each["device"]["type"], each["device"]["name"], each["ep_vendor"]) for each in offered
    ] == [("npu", "Hexagon HTP, emulated on the CPU", "Qualcomm")]


def test_select_takes_the_emulated_npu_where_it_is_named_and_never_else(
    qnn_package: Path, ortpkg: Ortpkg
) -> None:
    refused = ortpkg("select", qnn_package, "--device", "npu")
    assert refused.code == 3
    assert "'qnn': EP_NOT_AVAILABLE" in refused.err + refused.out
    chosen = ortpkg("select", qnn_package, "--device", "npu", emulates="qnn")
    assert chosen.code == 0, chosen.err
    assert (
        "qnn on QNNExecutionProvider (onnxruntime) on NPU (Hexagon HTP, emulated on the CPU)"
        in chosen.out
    )


def test_run_computes_on_it_and_prints_nothing_but_its_json(
    qnn_package: Path, ortpkg: Ortpkg, loads: Loads
) -> None:
    done = ortpkg("run", qnn_package, "--device", "npu", "--json", emulates="qnn")
    assert done.code == 0, done.err
    assert done.out.startswith("{")
    assert done.json
    shown = ortpkg("run", qnn_package, "--device", "npu", emulates="qnn")
    assert "12 of 12 nodes" in shown.err + shown.out
    assert "outputs match what the package expects" in shown.err + shown.out
    loads(
        "plain model, batch of 1",
        "QNN, by ortpkg",
        "12 of 12 nodes on the emulated HTP; as expected",
    )


def test_a_context_that_ortpkg_compiled_is_selected_and_runs(
    qnn_package: Path, ortpkg: Ortpkg, loads: Loads
) -> None:
    made = ortpkg(
        "compile", qnn_package, "--ep", "qnn", "--variant", "qnn", "--name", "ctx", emulates="qnn"
    )
    assert made.code == 0, made.err
    chosen = ortpkg("select", qnn_package, "--device", "npu", "--explain", emulates="qnn")
    assert "'ctx' on QNNExecutionProvider" in chosen.out
    assert "EP_SUPPORTED_OPTIMAL" in chosen.out
    assert ortpkg("run", qnn_package, "--device", "npu", emulates="qnn").code == 0, (
        "made here, so it needs no trust"
    )
    shown = ortpkg("run", qnn_package, "--device", "npu", "--trust", "--isolate", emulates="qnn")
    assert "outputs match what the package expects" in shown.err + shown.out
    loads(
        "context by ortpkg for QNN",
        "QNN, by ortpkg",
        "OPTIMAL; as expected, in this process and in a child",
    )
    (model,) = (qnn_package / "models/classifier/ctx").glob("*.onnx")
    plain = plain_onnxruntime(ep=QNN, model=str(model), options=HTP)
    assert "error" in plain
    loads("context by ortpkg for QNN", "QNN, by onnxruntime", "refused: the container is ortpkg's")


def test_a_context_that_onnxruntime_compiled_runs_and_is_not_rated_while_qnn_emulates(
    qnn_package: Path, fixed_model: Path, tmp_path: Path, ortpkg: Ortpkg, loads: Loads
) -> None:
    context = tmp_path / "fixed_ctx.onnx"
    made = plain_onnxruntime(ep=QNN, model=str(fixed_model), options=HTP, output=str(context))
    assert made["compatibility"], made
    by_itself = plain_onnxruntime(ep=QNN, model=str(context), options=HTP)
    of_model = plain_onnxruntime(ep=QNN, model=str(fixed_model), options=HTP)
    assert _difference(by_itself["outputs"][0], of_model["outputs"][0]) < 1e-4
    loads("context by onnxruntime for QNN", "QNN, by onnxruntime", "as the plain model")
    words = ("--component", "classifier", "--variant", "theirs", "--ep", "qnn", "--device", "npu")
    assert ortpkg("add-variant", qnn_package, context, *words).code == 0
    rated = ortpkg("select", qnn_package, "--device", "npu", "--explain", emulates="qnn")
    assert "'theirs'" in rated.out
    assert "failed to judge" not in rated.out, (
        "QNN's function, which rates real NPUs only, is not asked"
    )
    done = ortpkg("run", qnn_package, "--variant", "theirs", "--trust", emulates="qnn")
    assert "outputs match what the package expects" in done.err + done.out, done.err
    loads(
        "context by onnxruntime for QNN",
        "QNN, by ortpkg",
        "not rated: QNN rates real NPUs only; as expected",
    )


def test_doctor_has_nothing_to_complain_of_a_wheel_that_emulates(ortpkg: Ortpkg) -> None:
    """An environment may have another wheel that cannot work here, as a remark."""
    complaints = json.loads(ortpkg("doctor", "--json").out)["complaints"]
    failed = [complaint for complaint in complaints if complaint["check"] == "failed-backend"]
    assert [complaint for complaint in failed if complaint["gravity"] != "info"] == []
    assert [complaint for complaint in failed if "qnn" in complaint["message"].lower()] == []


def test_a_session_that_names_qnn_fails_with_the_reason(qnn_package: Path, ortpkg: Ortpkg) -> None:
    done = ortpkg("run", qnn_package, "--variant", "qnn")
    assert done.code != 0
    assert "emulates an NPU on the CPU" in done.err


def test_a_library_that_the_program_registered_under_its_own_name_is_used(
    fixed_model: Path,
) -> None:
    program = (
        "import sys, numpy, onnxruntime, onnxruntime_qnn,"
        " ortpkg;onnxruntime.register_execution_provider_library('my.qnn',"
        " onnxruntime_qnn.get_library_path());session = ortpkg.InferenceSession(sys.argv[1],"
        " providers=['qnn'], enable_fallback=False);session.run(None, {'image': numpy.zeros((1, 1,"
        " 8, 8), numpy.float32)});print(session.get_providers())"
    )
    environment = {**os.environ, "ORTPKG_EMULATED_DEVICES": "qnn"}
    done = subprocess.run(
        [sys.executable, "-c", program, fixed_model],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "['QNNExecutionProvider', 'CPUExecutionProvider']\n", done.stderr


def test_what_a_session_compiled_is_found_by_the_next_one(
    qnn_package: Path, ortpkg: Ortpkg, loads: Loads
) -> None:
    words = (qnn_package, "--variant", "qnn", "--device", "npu")
    assert ortpkg("run", *words, "--cache", emulates="qnn").code == 0
    why = ortpkg("cache", "why", *words, emulates="qnn")
    assert "classifier/qnn on QNNExecutionProvider: partition QNN__0: in the cache" in why.out, (
        why.err
    )
    shown = ortpkg("run", *words, "--cache", emulates="qnn")
    assert "1 of 1 nodes" in shown.err + shown.out, "it is one context"
    assert "outputs match what the package expects" in shown.err + shown.out
    loads("plain model, from the cache of contexts", "QNN, by ortpkg", "found, loaded; as expected")
