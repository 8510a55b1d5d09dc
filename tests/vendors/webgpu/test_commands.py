"""Commands on the sample packages, whose GPU variant runs on the WebGPU execution provider."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np

from tests.vendors.conftest import Loads
from tests.vendors.webgpu.conftest import DIGITS, TINYCHAR, WEBGPU, OnCards

_OPTIONS = ("dawnBackendType=Vulkan", "powerPreference=low-power")
_COUNT = 12
#: Seconds until a server has loaded and run its packages.
_LIMIT_S = 240


def test_devices_lists_the_gpu_with_the_version_of_the_wheel(ortpkg: OnCards) -> None:
    offered = [
        (entry["backend"], entry["ep_version"], entry["device"]["type"], entry["device"]["vendor"])
        for entry in ortpkg("devices", "--json").json["ep_devices"]
        if entry["ep"] == WEBGPU
    ]
    assert offered == [("onnxruntime", "0.4.0", "gpu", "NVIDIA")]


def test_the_gpu_is_selected_and_the_samples_come_out_as_expected(
    gpu_package: Path, ortpkg: OnCards, loads: Loads
) -> None:
    chosen = ortpkg("select", gpu_package, "--device", "gpu")
    assert f"gpu on {WEBGPU} (onnxruntime) on GPU (NVIDIA GPU" in chosen.out, chosen.err
    done = ortpkg("run", gpu_package, "--device", "gpu")
    assert "357 of 360 right" in done.out
    assert "outputs match what the package expects" in done.out
    assert "12 of 12 nodes" in done.out + done.err
    loads("digits", "WebGPU, ortpkg run", "357 of 360 right; as expected")


def test_options_of_the_provider_reach_it(gpu_package: Path, ortpkg: OnCards) -> None:
    options = [word for option in _OPTIONS for word in ("--provider-option", option)]
    done = ortpkg("run", gpu_package, "--ep", "webgpu", *options)
    assert "outputs match what the package expects" in done.out, done.err
    wrong = ("--provider-option", "dawnBackendType=Metal")
    refused = ortpkg("run", gpu_package, "--ep", "webgpu", "--variant", "gpu", *wrong)
    assert "Invalid Dawn backend type: Metal" in refused.err


def test_the_plan_tells_the_copies_to_the_gpu_and_back(gpu_package: Path, ortpkg: OnCards) -> None:
    done = ortpkg("plan", gpu_package, "--ep", "webgpu", "--dim", "batch=2")
    assert done.code == 0, done.err
    ways = "1 from Cpu to WebGpu:0, 1 from WebGpu:0 to Cpu"
    assert f"copies between memories: 2 ({ways}), 592 B" in done.out


def test_a_child_process_runs_it_too(gpu_package: Path, ortpkg: OnCards) -> None:
    done = ortpkg("run", gpu_package, "--device", "gpu", "--isolate")
    assert "outputs match what the package expects" in done.out, done.err


def test_the_benchmark_measures_it(gpu_package: Path, ortpkg: OnCards, loads: Loads) -> None:
    done = ortpkg("bench", gpu_package, "--variant", "gpu", "--json")
    assert done.code == 0, done.err
    assert f'"{WEBGPU}"' in done.out
    assert "accurate" in done.out
    loads("digits", "WebGPU, ortpkg bench", "measured; accurate")


def test_a_batch_of_rows_runs_on_it(
    gpu_package: Path, ortpkg: OnCards, tmp_path: Path, loads: Loads
) -> None:
    images = np.load(DIGITS / "samples/held_out_inputs.npz")
    labels = np.load(DIGITS / "samples/held_out_labels.npz")
    rows = tmp_path / "rows.jsonl"
    lines = [json.dumps({"image": image.tolist()}) for image in images[images.files[0]][:_COUNT]]
    rows.write_text("\n".join(lines))
    words = ("--input", rows, "--output", tmp_path / "out", "--in-process", "--device", "gpu")
    done = ortpkg("batch", gpu_package, *words, "--batch-size", "4")
    assert done.code == 0, done.err
    records = [
        json.loads(line)
        for part in sorted((tmp_path / "out").glob("part-*.jsonl"))
        for line in part.read_text().splitlines()
    ]
    classes = [int(np.argmax(record["logits"])) for record in records]
    assert classes == labels[labels.files[0]][:_COUNT].tolist()
    loads("digits", "WebGPU, ortpkg batch", f"{_COUNT} rows; right")


def test_a_server_answers_a_request_on_it(gpu_package: Path, tmp_path: Path, loads: Loads) -> None:
    words = ("serve", gpu_package, "--device", "gpu", "--port", "0", "--grpc-port", "0", "--json")
    environment = {**os.environ, "ORTPKG_CACHE_DIR": str(tmp_path / "cache")}
    log = tmp_path / "log"
    with log.open("w") as stderr:
        server = subprocess.Popen(
            [sys.executable, "-m", "ortpkg", *map(str, words)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        assert server.stdout is not None
        said = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")
        address = re.search(r"http://[\d.]+:\d+", json.dumps(said))
        assert address is not None, said
        images = np.load(DIGITS / "samples/held_out_inputs.npz")
        image = images[images.files[0]][0]
        tensor = {
            "name": "image",
            "shape": [1, *image.shape],
            "datatype": "FP32",
            "data": image.ravel().tolist(),
        }
        request = urllib.request.Request(
            f"{address[0]}/v2/models/digits/infer",
            json.dumps({"inputs": [tensor]}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=_LIMIT_S) as response:
            (logits,) = json.load(response)["outputs"]
        assert int(np.argmax(logits["data"])) == 0
        assert f'"places": ["{WEBGPU} (onnxruntime) gpu"]' in log.read_text()
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(_LIMIT_S) == 0
    loads("digits", "WebGPU, ortpkg serve", "a request answered; right")


def test_a_pipeline_with_a_loop_runs_on_it(tmp_path: Path, ortpkg: OnCards, loads: Loads) -> None:
    package = Path(shutil.copytree(TINYCHAR, tmp_path / "tinychar.ortpackage"))
    for component in ("prefill", "decode"):
        model = package / f"models/tinychar/cpu-fp32/{component}.onnx"
        words = ("--component", component, "--variant", "gpu", "--ep", "webgpu", "--device", "gpu")
        done = ortpkg("add-variant", package, model, *words)
        assert done.code == 0, done.err
    done = ortpkg("run", package, "--device", "gpu")
    assert done.code == 0, done.err
    assert "outputs match what the package expects" in done.out + done.err
    assert "WebGpuExecutionProvider" in done.err + done.out
    loads("tinychar, a pipeline", "WebGPU, ortpkg run", "as expected")
