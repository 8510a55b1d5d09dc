"""A server of the digits, asked over HTTP by eight threads, and ended.

serving PACKAGE VARIANT EP
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

_REQUESTS, _THREADS, _END_S = 400, 8, 20


def main(package: str, variant: str, ep: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "ortpkg", "serve", package, "--name", "digits", "--json"]
    chosen = ["--variant", variant, "--ep", ep, "--backend", "onnxruntime"]
    ports = ["--port", "0", "--grpc-port", "0"]
    start_s = time.perf_counter()
    process = subprocess.Popen(
        [*command, *chosen, *ports], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    said: list[str] = []
    errors = process.stderr
    assert errors is not None
    reader = threading.Thread(target=lambda: said.extend(errors), daemon=True)
    reader.start()
    try:
        ready = _ready(process, said)
        started_s = time.perf_counter() - start_s
        answer = _ask(ready["http"], package)
        process.send_signal(signal.SIGTERM)
        return {**answer, "start_s": started_s, "exit_code": process.wait(_END_S)}
    finally:
        process.kill()
        process.wait()


def _ready(process: subprocess.Popen[str], said: list[str]) -> dict[str, Any]:
    text = ""
    assert process.stdout is not None
    for line in process.stdout:
        text += line
        if line == "}\n":
            return dict(json.loads(text))
    process.wait()
    raise SystemExit(f"the server ended: {''.join(said[-5:]) or text}")


def _ask(address: str, package: str) -> dict[str, Any]:
    samples = Path(package) / "samples"
    images = np.load(samples / "held_out_inputs.npz")["image"]
    expected = np.load(samples / "held_out_outputs.npz")["logits"]
    images = images.reshape(-1, 1, 8, 8).astype(np.float32)
    expected = expected.reshape(len(images), -1)

    def ask(index: int) -> bool:
        image = images[index % len(images)]
        tensor = {
            "name": "image",
            "shape": [1, 1, 8, 8],
            "datatype": "FP32",
            "data": image.ravel().tolist(),
        }
        request = urllib.request.Request(
            f"{address}/v2/models/digits/infer",
            data=json.dumps({"inputs": [tensor]}).encode(),
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            logits = json.loads(response.read())["outputs"][0]["data"]
        return int(np.argmax(logits)) == int(np.argmax(expected[index % len(images)]))

    ask(0)
    start_s = time.perf_counter()
    with ThreadPoolExecutor(_THREADS) as pool:
        right = sum(pool.map(ask, range(_REQUESTS)))
    return {"right": right, "asked": _REQUESTS, "seconds": time.perf_counter() - start_s}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:4])))
