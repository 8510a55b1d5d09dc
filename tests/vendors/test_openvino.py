"""OpenVINO's real library for onnxruntime. It offers nothing on a CPU that is not Intel's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.vendors.conftest import DIGITS, Loads, Ortpkg
from tests.vendors.plain_onnxruntime import plain_onnxruntime

OPENVINO = "OpenVINOExecutionProvider"
MODEL = DIGITS / "models/classifier/cpu-fp32/model.onnx"
_CPUINFO = Path("/proc/cpuinfo")
_is_intel = sys.platform == "linux" and "GenuineIntel" in _CPUINFO.read_text()

pytestmark = [pytest.mark.vendors, pytest.mark.timeout(900)]
needs_intel = pytest.mark.skipif(
    not _is_intel, reason="onnxruntime-ep-openvino offers nothing on other CPUs"
)


@pytest.fixture
def openvino_package(package: Path, ortpkg: Ortpkg) -> Path:
    """The digits package with a variant for OpenVINO on any device."""
    done = ortpkg(
        "add-variant",
        package,
        MODEL,
        "--component",
        "classifier",
        "--variant",
        "ov",
        "--ep",
        "openvino",
    )
    assert done.code == 0, done.err
    return package


def test_devices_lists_what_the_wheel_offers(ortpkg: Ortpkg) -> None:
    found = [
        (each["device"]["type"], each["ep_version"], each["ep_metadata"]["ov_device"])
        for each in ortpkg("devices", "--json").json["ep_devices"]
        if (each["ep"], each["backend"]) == (OPENVINO, "onnxruntime")
    ]
    assert (("cpu", "1.8.1", "CPU") in found) is _is_intel


@needs_intel
def test_a_plain_model_runs_in_float32(
    openvino_package: Path, ortpkg: Ortpkg, loads: Loads
) -> None:
    done = ortpkg("run", openvino_package, "--variant", "ov", "--backend", "onnxruntime")
    assert done.code == 0, done.err
    assert "OpenVINOExecutionProvider (onnxruntime, CPU" in done.err + done.out
    assert "outputs match what the package expects" in done.err + done.out
    loads("plain model", "OpenVINO's wheel, by ortpkg", "as expected, in float32")


@needs_intel
def test_a_context_that_ortpkg_compiled_is_selected_and_runs(
    openvino_package: Path, ortpkg: Ortpkg, loads: Loads
) -> None:
    words = ("--ep", "openvino", "--backend", "onnxruntime", "--variant", "ov", "--name", "ctx")
    made = ortpkg("compile", openvino_package, *words)
    assert made.code == 0, made.err
    chosen = ortpkg("select", openvino_package, "--backend", "onnxruntime", "--explain")
    assert "'ctx' on OpenVINOExecutionProvider (onnxruntime)" in chosen.out
    done = ortpkg(
        "run", openvino_package, "--variant", "ctx", "--backend", "onnxruntime", "--trust"
    )
    assert "outputs match what the package expects" in done.err + done.out, done.err
    loads(
        "context by ortpkg for OpenVINO's wheel",
        "OpenVINO's wheel, by ortpkg",
        "OPTIMAL; as expected",
    )


@needs_intel
def test_a_context_that_onnxruntime_compiled_is_rated_by_openvino_itself_and_runs(
    openvino_package: Path, fixed_model: Path, tmp_path: Path, ortpkg: Ortpkg, loads: Loads
) -> None:
    context = tmp_path / "fixed_ctx.onnx"
    options = {"load_config": '{"CPU": {"INFERENCE_PRECISION_HINT": "f32"}}'}
    made = plain_onnxruntime(
        ep=OPENVINO, model=str(fixed_model), options=options, output=str(context)
    )
    assert made["compatibility"], made
    words = ("--component", "classifier", "--variant", "theirs", "--ep", "openvino")
    assert ortpkg("add-variant", openvino_package, context, *words).code == 0
    choice = ("select", openvino_package, "--backend", "onnxruntime", "--explain")
    assert "NEEDS_TRUST" in ortpkg(*choice).out
    rated = ortpkg(*choice, "--trust")
    assert "'theirs' on OpenVINOExecutionProvider (onnxruntime)" in rated.out
    assert "EP_SUPPORTED_OPTIMAL" in rated.out
    done = ortpkg(
        "run", openvino_package, "--variant", "theirs", "--backend", "onnxruntime", "--trust"
    )
    assert "outputs match what the package expects" in done.err + done.out, done.err
    loads(
        "context by onnxruntime for OpenVINO",
        "OpenVINO's wheel, by ortpkg",
        "OPTIMAL, says OpenVINO; as expected",
    )


@needs_intel
def test_a_string_that_openvino_rates_unsupported_is_not_selected(
    openvino_package: Path, fixed_model: Path, ortpkg: Ortpkg
) -> None:
    words = (
        "--component",
        "classifier",
        "--variant",
        "odd",
        "--ep",
        "openvino",
        "--compatibility-info",
        "odd",
    )
    assert ortpkg("add-variant", openvino_package, fixed_model, *words).code == 0
    rated = ortpkg("select", openvino_package, "--backend", "onnxruntime", "--explain")
    assert "EP_UNSUPPORTED" in rated.out


def test_npus_that_are_not_here_are_listed_to_compile_for(package: Path, ortpkg: Ortpkg) -> None:
    """The wheel lacks Intel's compiler for them: whoever names one is told that."""
    words = ("compile", package, "--ep", "openvino", "--variant", "cpu-fp32", "--for-device")
    listed = ortpkg(*words, "npu")
    assert "'npu' may be several devices of OpenVINOExecutionProvider; name one of: " in listed.err
    assert "npu_platform=4000" in listed.err
    named = ortpkg(*words, "npu,npu_platform=4000")
    variant_folder = package / "models/classifier/cpu-fp32-openvino-npu-npu-platform-4000"
    assert (named.code == 0) is variant_folder.is_dir()
    assert named.code == 0 or "libopenvino_intel_npu_compiler" in named.err
