"""``ortpkg run`` ends in time whatever a native library does, and says why."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory and signals of another process")

#: One kernel that takes long.
LONG = """
<ir_version: 10, opset_import: ["" : 17]>
long (float[N, N] x) => (float[N, N] y) { y = MatMul(x, x) }
"""
#: Takes 4 bytes per element several times.
HUNGRY = """
<ir_version: 10, opset_import: ["" : 17]>
hungry (float[1] x, int64[1] n) => (float total) {
    a = Expand(x, n)
    b = Exp(a)
    c = Sin(b)
    total = ReduceSum<keepdims = 0>(c)
}
"""


@pytest.fixture
def long_run(tmp_path: Path) -> list[str]:
    """The command that multiplies a large matrix in onnxruntime."""
    np.save(tmp_path / "x.npy", np.ones((10000, 10000), np.float32))
    return _command(tmp_path, LONG, "x=x.npy")


@pytest.fixture
def hungry_run(tmp_path: Path) -> list[str]:
    """The command that makes gigabytes of a few bytes in onnxruntime."""
    np.save(tmp_path / "x.npy", np.ones(1, np.float32))
    np.save(tmp_path / "n.npy", np.array([700_000_000], np.int64))
    return _command(tmp_path, HUNGRY, "x=x.npy", "n=n.npy")


def _command(folder: Path, text: str, *inputs: str) -> list[str]:
    pytest.importorskip("onnxruntime")
    (folder / "m.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
    ortpkg = [sys.executable, "-m", "ortpkg"]
    create = [*ortpkg, "create", str(folder / "p"), "--cpu", str(folder / "m.onnx")]
    subprocess.run(create, check=True, capture_output=True)
    pairs = [pair.partition("=") for pair in inputs]
    files = [word for name, _, file in pairs for word in ("-i", f"{name}={folder / file}")]
    return [*ortpkg, "run", str(folder / "p"), "--backend", "onnxruntime", *files]


@pytest.mark.parametrize("how", ["--isolate", "--no-isolate"])
def test_a_run_in_a_native_kernel_ends_at_its_time(long_run: list[str], how: str) -> None:
    start = time.monotonic()
    done = subprocess.run(
        [*long_run, "--timeout", "3", how, "--json"], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 5
    assert "passed" in json.loads(done.stdout)["error"]["message"]
    assert "time limit" in json.loads(done.stdout)["error"]["message"]
    assert time.monotonic() - start < 60


@pytest.mark.parametrize("how", ["--isolate", "--no-isolate"])
def test_a_run_in_a_native_kernel_ends_at_its_memory(hungry_run: list[str], how: str) -> None:
    limit = ["--memory-limit", "300000000"]
    done = subprocess.run([*hungry_run, *limit, how], check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 5
    assert "memory limit of 300,000,000 bytes" in done.stderr


@pytest.mark.parametrize("how", ["--isolate", "--no-isolate"])
def test_an_interrupt_ends_a_run_in_a_native_kernel(long_run: list[str], how: str) -> None:
    process = subprocess.Popen([*long_run, how], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "variant" in process.stderr.readline()  # what it says before it runs
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    rest = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert rest == "cancelled\n"
    assert time.monotonic() - start < 20
